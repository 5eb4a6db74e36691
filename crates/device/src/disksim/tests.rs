//! DiskSim's files, in small: what is read, and what is refused in which words.

use super::*;
use crate::hdd::ReadAhead;
use crate::hdd::seek::SeekCurve;

const SPECS: &str = "\
disksim_disk TOY {
   Model = source toy.model, # the mechanics
   Time scale for overheads = 0.5,
   Bulk sector transfer time = 0.1,
   Allow read hits on write data = 1,
   Allow almost read hits = 0,
   Max queue length = 1,
   Scheduler = disksim_ioqueue { Scheduling policy = 1 },
   Number of buffer segments = 3,
   Maximum number of write segments = 1,
   Segment size (in blks) = 64,
   Low (write) water mark = 0.0,
   Enable caching in buffer = 1,
   Buffer continuous read = 3,
   Maximum read-ahead (blks) = 32,
   Read-ahead on idle hit = 0,
   Read any free blocks = 1,
   Fast write level = 2,
   Immediate buffer read = 1,
   Immediate buffer write = 0,
   Combine seq writes = 1,
   Read hit over. after read = 0.2,
   Read hit over. after write = 0.4,
   Read miss over. after read = 0.6,
   Read miss over. after write = 0.8,
   Write hit over. after read = 1.0,
   Write hit over. after write = 1.2,
   Write miss over. after read = 1.4,
   Write miss over. after write = 1.6,
   Read completion overhead = 0.0,
   Write completion overhead = 0.0
}
";

const MODEL: &str = "\
dm_disk TOY_model {
   Number of data surfaces = 2,
   Number of cylinders = 10,
   Block count = 199,
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 0,
      Sparing scheme used = 9,
      Rangesize for sparing = 1,
      Zones = [ dm_layout_g1_zone {
         First cylinder number = 0,
         Last cylinder number = 9,
         Blocks per track = 10,
         Offset of first block = 0.0,
         Empty space at zone front = 0,
         Skew for track switch = 2,
         Skew for cylinder switch = 3,
         Number of spares = 1,
         slips = [ 7 ],
         defects = [ 5, 5 ]
      } ]
   },
   Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation,
      Seek type = extracted,
      Single cylinder seek time = 1.0,
      Full seek curve = toy.seek,
      Full strobe seek time = 3.0,
      Add. write settling delay = -0.1,
      Head switch time = 0.5,
      Rotation speed (in rpms) = 6000,
      Percent error in rpms = 0.0
   }
}
";

const SEEK: &str = "Seek distances measured: 2\n1,\t1.0\n9,\t3.0, 0.01\n";

fn read_toy(specs: &str, model: &str, seek: &str) -> Result<Drive, Diagnostics> {
    let mut open = |file: &str| match file {
        "toy.model" => Ok(model.to_owned()),
        "toy.seek" => Ok(seek.to_owned()),
        _ => Err("no such file".to_owned()),
    };
    read("toy.diskspecs", specs, &mut open)
}

#[test]
fn a_drive_is_read_with_the_files_it_names() {
    let Drive { name, parameters } = read_toy(SPECS, MODEL, SEEK).unwrap();
    assert_eq!((name.as_str(), parameters.geometry.sectors()), ("TOY", 199));
    assert_eq!(parameters.geometry.place(7).angle, 8.0, "sector 7 is skipped");
    assert_eq!(parameters.seek, SeekCurve::Table(vec![(1, 1.0), (9, 3.0)]));
    assert_eq!((parameters.revolution, parameters.write_settle), (10.0, -0.1));
    assert_eq!(parameters.overheads.read_miss, [0.3, 0.4], "scaled by a half");
    assert_eq!(parameters.overheads.write, [0.5, 0.6], "reported at once: those of a hit");
    assert_eq!(parameters.read_ahead, ReadAhead::Sectors(32));
    assert_eq!(parameters.write_back.map(|back| (back.runs, back.sectors)), Some((1, 64)));
    assert_eq!((parameters.segments, parameters.depth), (3, 1));
    let inline = SPECS.replace("source toy.model", MODEL.trim().strip_prefix("dm_disk TOY_model").unwrap());
    let inline = inline.replace("Model = {", "Model = dm_disk {").replace("Model =  {", "Model = dm_disk {");
    assert_eq!(read_toy(&inline, MODEL, SEEK).unwrap().parameters.geometry.sectors(), 199);
}

/// Each case changes one place of one file.
#[test]
fn what_is_wrong_or_not_modelled_is_told_with_its_place() {
    let cases: &[(&str, &str, &str)] = &[
        ("Scheduler = ", "Schedule = ", "toy.diskspecs:8:4: `Schedule` is not a key of disksim_disk"),
        (
            "Low (write) water mark = 0.0",
            "Low (write) water mark = 0.5",
            "toy.diskspecs:12:29: `Low (write) water mark` is 0.5: waiting for a part of the data before asking for the bus is \
             not modelled (set it to 0)",
        ),
        (
            "Buffer continuous read = 3",
            "Buffer continuous read = 7",
            "toy.diskspecs:14:29: `Buffer continuous read` is 7, of 0 to 4",
        ),
        (
            "Segment size (in blks) = 64",
            "Segment size (in blks) = 0",
            "toy.diskspecs:11:29: `Segment size (in blks)` is 0, and should be between 1 and 131072",
        ),
        (
            "source toy.model",
            "source lost.model",
            "toy.diskspecs:2:12: lost.model cannot be read: no such file",
        ),
        (
            "Blocks per track = 10",
            "Blocks per track = -10",
            "toy.model:12:29: `Blocks per track` is -10, and should be between 1 and 65536",
        ),
        (
            "Blocks per track = 10",
            "Blocks per track = 1.5",
            "toy.model:12:29: `Blocks per track` is 1.5, and should be a whole number",
        ),
        (
            "         Number of spares = 1,\n",
            "",
            "toy.model:9:17: this dm_layout_g1_zone has no `Number of spares`",
        ),
        (
            "Last cylinder number = 9",
            "Last cylinder number = 9, Last cylinder numbe = 9",
            "toy.model:11:36: `Last cylinder numbe` is not a key of dm_layout_g1_zone",
        ),
        (
            "First cylinder number = 0",
            "First cylinder number = 10",
            "toy.model:9:17: zone 0 cannot be: its cylinders 10 to 9 are not after those before",
        ),
        (
            "Number of spares = 1",
            "Number of spares = 200",
            "toy.model:9:17: zone 0 cannot be: it has 200 spare sectors for every 200",
        ),
        (
            "slips = [ 7 ]",
            "slips = [ 7, 8 ]",
            "toy.model:9:17: zone 0 cannot be: from sector 0 on it skips 2 sectors and has 1 spare ones",
        ),
        (
            "defects = [ 5, 5 ]",
            "defects = [ 5, 6 ]",
            "toy.model:19:22: sectors that were moved to spare ones are not modelled",
        ),
        (
            "Sparing scheme used = 9",
            "Sparing scheme used = 4",
            "toy.model:7:29: `Sparing scheme used` 4 is not modelled",
        ),
        (
            "Seek type = extracted",
            "Seek type = hpl",
            "toy.model:24:19: the seek type hpl is not modelled (use constant, curve or extracted)",
        ),
        (
            "trackSwitchPlusRotation",
            "averageRotation",
            "toy.model:23:26: rotation is always reckoned exactly: `trackSwitchPlusRotation`",
        ),
        (
            "Rotation speed (in rpms) = 6000",
            "Rotation speed (in rpms) = 0",
            "toy.model:30:34: `Rotation speed (in rpms)` is 0, and should be between 60 and 60000",
        ),
        (
            "9,\t3.0",
            "2,\t9000",
            "toy.seek:3:1: the last two points go on to 71993.0 ms for all 9 cylinders, which is not between 0 ms and 20000 ms",
        ),
        (
            "Last cylinder number = 9",
            "Last cylinder number = 4294967295",
            "toy.model:11:33: `Last cylinder number` is 4294967295, and should be between 0 and 16777215",
        ),
        (
            "Number of spares = 1",
            "Number of spares = 1e15",
            "toy.model:17:29: `Number of spares` is 1000000000000000, and should be between 0 and 4294967295",
        ),
        (
            "Number of data surfaces = 2",
            "Number of data surfaces = 1000",
            "toy.model:2:30: `Number of data surfaces` is 1000, and should be between 1 and 255",
        ),
        (
            "Max queue length = 1",
            "Max queue length = 1e30",
            "toy.diskspecs:7:23: `Max queue length` is 1000000000000000000000000000000, and should be between 1 and 65536",
        ),
        ("9,\t3.0", "1,\t3.0", "toy.seek:3:1: distance 1 is not beyond the one before it"),
        (
            "9,\t3.0",
            "9;\t3.0",
            "toy.seek:3:1: `CYLINDERS, MILLISECONDS` should stand here (cylinders are from 1 on, and a seek takes between 0 and 10000 ms)",
        ),
        (
            "9,\t3.0",
            "9,\t-3.0",
            "toy.seek:3:1: `CYLINDERS, MILLISECONDS` should stand here (cylinders are from 1 on, and a seek takes between 0 and 10000 ms)",
        ),
    ];
    for (from, to, told) in cases {
        let changed = |text: &str| text.replacen(from, to, 1);
        assert!([SPECS, MODEL, SEEK].iter().any(|text| text.contains(from)), "{from}");
        let wrong = read_toy(&changed(SPECS), &changed(MODEL), &changed(SEEK)).unwrap_err().to_string();
        assert_eq!(wrong, *told);
    }
    let two = format!("{SPECS}{SPECS}");
    assert!(read_toy(&two, MODEL, SEEK).unwrap_err().to_string().contains("two blocks"));
    assert!(read_toy("", MODEL, SEEK).unwrap_err().to_string().contains("no block disksim_disk"));
}
