#include "support/maxtext_run.h"

#include <fmt/format.h>

#include <string>

namespace lamina::testing {
namespace {

double number(JsonValue config, const char* key, double preset = 0) {
  const JsonValue found = config.find(key);
  return found && found.is_number() ? found.as_double() : preset;
}

std::string run_file(const std::string& sections) {
  return "family = \"any\"\n[data]\ntrain = [\"any\"]\n" + sections;
}

// [train] and [schedule]; counts are fractions of the schedule there, rounded down.
std::string schedule_keys(JsonValue theirs) {
  const auto steps = theirs.at("learning_rate_schedule_steps").as_int64();
  auto part = [&](const char* key) {
    return static_cast<std::int64_t>(static_cast<double>(steps) * number(theirs, key));
  };
  std::string out =
      fmt::format("[train]\nsteps = {}\nclip_norm = {}\n", theirs.at("steps").as_int64(),
                  number(theirs, "gradient_clipping_threshold"));
  if (const JsonValue skip = theirs.find("skip_step_on_spikes"); skip && skip.as_bool())
    out += fmt::format("skip_spikes = {}\nspike_window = {}\n",
                       number(theirs, "skip_step_scaling_factor"),
                       theirs.at("skip_step_interval").as_int64());
  const JsonValue type = theirs.find("lr_schedule_type");
  const bool wsd = type && type.as_string() == "wsd";
  out += fmt::format(
      "[schedule]\nendpoints = true\nkind = \"{}\"\nsteps = {}\nwarmup_steps = {}\n"
      "final_fraction = {}\n",
      wsd ? "wsd" : "cosine", steps, part("warmup_steps_fraction"),
      number(theirs, "learning_rate_final_fraction"));
  if (wsd)
    out += fmt::format("decay_steps = {}\ndecay_shape = \"{}\"\n", part("wsd_decay_steps_fraction"),
                       theirs.at("wsd_decay_style").as_string());
  return out;
}

// Their masks are searched for in names; without one all learn, and all decay.
std::string groups_of(JsonValue theirs) {
  std::string out;
  const auto add = [&](const std::string& which, const std::string& says) {
    out += fmt::format("{{{}, {}}}, ", which, says);
  };
  const auto each = [&](const char* list, const std::string& says) {
    const JsonValue patterns = theirs.find(list);
    if (!patterns) return false;
    for (JsonValue part : patterns.elements())
      add(fmt::format("match = \"*{}*\"", part.as_string()), says);
    return patterns.size() > 0;
  };
  const std::string type(theirs.at("opt_type").as_string());
  const std::string decays = fmt::format(
      "weight_decay = {}", type == "sgd" ? 0 : number(theirs, "adam_weight_decay", 0.1));
  each("adamw_mask", "weight_decay = 0");
  const bool some_learn = each("trainable_parameters_mask", decays);
  if (type == "muon") {
    const std::string matrices =
        fmt::format("weight_decay = {}", number(theirs, "muon_weight_decay"));
    const JsonValue nested = theirs.find("model"), model = nested ? nested : theirs;
    // Three matrices there.
    if (const double k = number(model, "mhc_expansion_rate", 1); k > 1)
      add("match = \"*mhc_*.fn.weight\"",
          fmt::format("{}, split_rows = [{}, {}, {}]", matrices, k, k, k * k));
    add("role = \"weight\"", matrices);
    if (model.find("num_experts")) add("role = \"router\"", matrices);
  }
  add("match = \"*\"", some_learn ? "frozen = true" : decays);
  return out;
}

}  // namespace

config::RunConfig maxtext_schedule(JsonValue theirs) {
  return config::parse_run(run_file(schedule_keys(theirs)), "golden");
}

std::string maxtext_qk_clip(JsonValue theirs) {
  const JsonValue clips = theirs.find("use_qk_clip"), scans = theirs.find("scan_layers");
  if (!clips || !clips.as_bool()) return "";
  return fmt::format("qk_clip = {}\nqk_clip_over = \"{}\"\n",
                     number(theirs, "qk_clip_threshold", 100),
                     !scans || scans.as_bool() ? "stack" : "layer");
}

config::RunConfig maxtext_run(JsonValue theirs) {
  const std::string type(theirs.at("opt_type").as_string());
  std::string keys = fmt::format("[optimizer]\nlr = {}\ngroups = [{}]\n",
                                 number(theirs, "learning_rate"), groups_of(theirs));
  keys += fmt::format("name = \"{}\"\n", type == "adam_pax" ? "adamw" : type);
  if (type != "sgd")
    keys += fmt::format("beta1 = {}\nbeta2 = {}\neps = {}\neps_root = {}\n",
                        number(theirs, "adam_b1", 0.9), number(theirs, "adam_b2", 0.95),
                        number(theirs, "adam_eps", 1e-8), number(theirs, "adam_eps_root"));
  if (type == "muon") {
    keys += fmt::format("momentum = {}\n", number(theirs, "muon_beta", 0.95));
    if (const double rms = number(theirs, "muon_consistent_rms"); rms > 0)
      keys += fmt::format("consistent_rms = {}\n", rms);
  }
  keys += maxtext_qk_clip(theirs);
  return config::parse_run(run_file(schedule_keys(theirs) + keys), "golden");
}

}  // namespace lamina::testing
