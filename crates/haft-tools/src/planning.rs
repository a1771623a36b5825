//! Plans, questions and settings: what a session is about to do, and what the user says to it.

pub mod ask_user_question;
pub mod config;
pub mod enter_plan_mode;
pub mod exit_plan_mode;
pub mod plan;
pub mod verify_plan;

pub use ask_user_question::AskUserQuestion;
pub use config::Config;
pub use enter_plan_mode::EnterPlanMode;
pub use exit_plan_mode::ExitPlanMode;
pub use plan::SessionPlans;
pub use verify_plan::VerifyPlan;
