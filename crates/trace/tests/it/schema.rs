//! Perfetto's published schema, for tests alone: a file as a tree of values by field name, and such a tree as a file.
//!
//! `fixtures/perfetto.binpb.z` is the schema, compiled from the `.proto` files that the crate `perfetto_protos` 0.51.1
//! carries (Apache-2.0) and compressed by zlib:
//! `protoc --include_imports -I . -o perfetto.binpb protos/perfetto/trace/trace.proto`. The two thousand types generated
//! from it would take longer to compile than everything else in this directory.

use std::sync::LazyLock;

use protobuf::descriptor::FileDescriptorSet;
use protobuf::reflect::{
    FieldDescriptor, FileDescriptor, MessageDescriptor, ReflectFieldRef, ReflectValueBox, ReflectValueRef,
    RuntimeFieldType, RuntimeType,
};
use protobuf::{Message, MessageDyn};
use serde_json::{Map, Value};

/// The message of a whole file.
static TRACE: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let schema = miniz_oxide::inflate::decompress_to_vec_zlib(include_bytes!("../fixtures/perfetto.binpb.z"));
    let files = FileDescriptorSet::parse_from_bytes(&schema.unwrap()).unwrap();
    let files = FileDescriptor::new_dynamic_fds(files.file, &[]).unwrap();
    files.iter().find_map(|file| file.message_by_full_name(".perfetto.protos.Trace")).unwrap()
});

/// A file as objects, with the fields that are set, by their names; bytes as text. Panics where the schema does not know a field.
pub fn decode(file: &[u8]) -> Value {
    object(&*TRACE.parse_from_bytes(file).unwrap())
}

/// The file of such objects. Panics where the schema does not know a field.
pub fn encode(trace: &Value) -> Vec<u8> {
    message(&TRACE, trace).write_to_bytes_dyn().unwrap()
}

fn object(message: &dyn MessageDyn) -> Value {
    let descriptor = message.descriptor_dyn();
    assert!(
        message.unknown_fields_dyn().iter().next().is_none(),
        "a field of {} that the schema does not know",
        descriptor.name()
    );
    let mut fields = Map::new();
    for field in descriptor.fields() {
        let found = match field.get_reflect(message) {
            ReflectFieldRef::Optional(found) => found.value().map(value),
            ReflectFieldRef::Repeated(found) if found.is_empty() => None,
            ReflectFieldRef::Repeated(found) => Some(found.into_iter().map(value).collect()),
            ReflectFieldRef::Map(_) => panic!("{}: a trace has no maps", field.name()),
        };
        if let Some(found) = found {
            fields.insert(field.name().to_owned(), found);
        }
    }
    Value::Object(fields)
}

fn value(found: ReflectValueRef<'_>) -> Value {
    match found {
        ReflectValueRef::U32(n) => n.into(),
        ReflectValueRef::U64(n) => n.into(),
        ReflectValueRef::I32(n) => n.into(),
        ReflectValueRef::I64(n) => n.into(),
        ReflectValueRef::F32(n) => n.into(),
        ReflectValueRef::F64(n) => n.into(),
        ReflectValueRef::Bool(b) => b.into(),
        ReflectValueRef::String(text) => text.into(),
        ReflectValueRef::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap().into(),
        ReflectValueRef::Enum(of, number) => match of.value_by_number(number) {
            Some(value) => value.name().into(),
            None => panic!("{}: no value {number}", of.name()),
        },
        ReflectValueRef::Message(message) => object(&*message),
    }
}

fn message(descriptor: &MessageDescriptor, fields: &Value) -> Box<dyn MessageDyn> {
    let mut made = descriptor.new_instance();
    for (name, found) in fields.as_object().unwrap() {
        let field: FieldDescriptor = descriptor.field_by_name(name).unwrap();
        match field.runtime_field_type() {
            RuntimeFieldType::Singular(kind) => field.set_singular_field(&mut *made, boxed(&kind, found)),
            RuntimeFieldType::Repeated(kind) => {
                let mut list = field.mut_repeated(&mut *made);
                found.as_array().unwrap().iter().for_each(|element| list.push(boxed(&kind, element)));
            }
            RuntimeFieldType::Map(..) => panic!("{name}: a trace has no maps"),
        }
    }
    made
}

fn boxed(kind: &RuntimeType, found: &Value) -> ReflectValueBox {
    match kind {
        RuntimeType::U32 => ReflectValueBox::U32(found.as_u64().unwrap().try_into().unwrap()),
        RuntimeType::U64 => ReflectValueBox::U64(found.as_u64().unwrap()),
        RuntimeType::I32 => ReflectValueBox::I32(found.as_i64().unwrap().try_into().unwrap()),
        RuntimeType::I64 => ReflectValueBox::I64(found.as_i64().unwrap()),
        RuntimeType::Bool => ReflectValueBox::Bool(found.as_bool().unwrap()),
        RuntimeType::String => ReflectValueBox::String(found.as_str().unwrap().to_owned()),
        RuntimeType::Message(of) => ReflectValueBox::Message(message(of, found)),
        other => panic!("{other:?} is written by no test"),
    }
}
