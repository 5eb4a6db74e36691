//! From a device to a profile of it: what to ask ([`plan`]), what follows from the answers ([`mod@fit`]), and how near the model is to
//! them ([`mod@compare`]).
//!
//! Nothing here touches a device: the same plan is carried to a real one and, by [`rehearse`], to a model, of which the profile is
//! known.
//!
//! ```
//! use surety_device::characterise::{Origin, Plan, Scope, fit, rehearse};
//! use surety_device::profile::Profile;
//! use surety_units::Nanos;
//!
//! let null = Profile::named("null").expect("it comes with the program");
//! let scope = Scope { sectors: null.sectors(), writable: None, time: Nanos::from_secs(2), seed: 1 };
//! let mut plan = Plan::new(scope);
//! rehearse(&mut plan, null.build(1).as_mut());
//! let origin = Origin { name: "mine".into(), about: "mine".into(), date: "today".into(), sources: vec![], depth: None };
//! let fitted = fit(&plan.into_measured(), &origin).expect("it is a profile");
//! assert_eq!(fitted.profile.model, "fixed");
//! assert!(fitted.text.contains("read = \"10us\""), "{}", fitted.text);
//! ```

pub mod compare;
pub mod fit;
pub mod plan;
mod rehearse;
pub mod samples;
mod search;
pub mod turning;

pub use compare::{Row, compare};
pub use fit::{Fitted, Origin, fit};
pub use plan::{Measured, Plan, SECTORS_MIN, Scope, Step};
pub use rehearse::{rehearse, replay};
pub use samples::{Group, Part, Sample};
