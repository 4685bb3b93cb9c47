// lamina ckpt diff: differences between the tensors of two checkpoints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/shell_word.h"
#include "cli/shell/text.h"
#include "core/error.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "core/printable.h"
#include "io/weight_files.h"
#include "model/open.h"
#include "model/place.h"
#include "publishers/formats.h"
#include "train/loop/run_directory.h"
#include "weights/check/difference.h"
#include "weights/weights.h"

namespace lamina::cli {
namespace {

using weights::Differences;
using weights::TensorDifference;

std::string form_text(const TensorDifference::Form& form) {
  return fmt::format("{}{}", form.type, to_string(form.shape));
}

// Returns the first property that differs.
std::string_view kind_of(const TensorDifference& t) {
  if (!(t.a->shape == t.b->shape)) return "shape";
  if (t.a->type != t.b->type) return "type";
  return t.values && t.values->num_different == 0 && !t.parts.empty() ? "parts" : "values";
}

std::string line_of(const TensorDifference& t) {
  if (!t.b) return fmt::format("  only in A  {}  {}", t.name, form_text(*t.a));
  if (!t.a) return fmt::format("  only in B  {}  {}", t.name, form_text(*t.b));
  std::string out = fmt::format("  {:<9}  {}  {}", kind_of(t), t.name, form_text(*t.a));
  if (form_text(*t.a) != form_text(*t.b)) out += " | " + form_text(*t.b);
  if (t.values)
    out += fmt::format("  {} of {} differ, max |a - b| {:.3g}, relative {:.3g}",
                       t.values->num_different, t.a->shape.num_elements(), t.values->largest,
                       t.values->relative);
  if (!t.parts.empty()) out += fmt::format("  ({})", fmt::join(t.parts, ", "));
  return out;
}

void write_json(JsonWriter& json, const Differences& found) {
  json.begin_object().key("identical").value(found.num_identical).key("tensors").begin_array();
  for (const TensorDifference& t : found.tensors) {
    json.begin_object().key("name").value(t.name);
    json.key("a");
    t.a ? json.value(form_text(*t.a)) : json.null();
    json.key("b");
    t.b ? json.value(form_text(*t.b)) : json.null();
    if (t.values) {
      json.key("different").value(t.values->num_different);
      json.key("max_abs").value(t.values->largest).key("relative").value(t.values->relative);
    }
    if (!t.parts.empty()) {
      json.key("parts").begin_array();
      for (const std::string& part : t.parts) json.value(part);
      json.end_array();
    }
    json.end_object();
  }
  json.end_array().end_object();
}

std::string directory_of(const std::string& path) {
  return model::is_adapter(path) ? path : train::resolve_model_files(path);
}

// Opens the tensors of `path`. If only one of both models is a GGUF file, its rows of queries and
// keys get the published order, as in the other.
io::WeightFiles open_set(const std::string& path, const std::string& set, const std::string& other,
                         const Globals& globals) {
  io::WeightFiles out(path, set);
  if (!out.gguf() || !io::gguf_in(other).empty()) return out;
  try {
    out.unpair_rows(
        model::describe(path, plugin_catalog(globals), {}, {}, model::WeightForm::published)
            .paired_width);
  } catch (const UserError& error) {
    log::warning(
        "queries and keys may be reported as different, because their rows may have another order "
        "in the GGUF file; compare safetensors files instead: {}",
        error.what());
  }
  return out;
}

// Throws UserError if `path` has no adapter, and so nothing to compare with the adapter `other`.
void check_has_adapter(const std::string& path, const std::string& other) {
  if (model::is_adapter(path) || io::has_weight_set(path, publishers::kAdapterStem)) return;
  throw UserError(
      ExitCode::checkpoint,
      {path,
       fmt::format("has no adapter to compare with the adapter {}; expected another adapter, or a "
                   "checkpoint with one",
                   other),
       {"`lamina ckpt merge` writes a model with the adapter, to compare with this one"}});
}

// Returns whether no tensor is in both, although both have some.
bool share_no_name(const Differences& found) {
  const auto lacks = [&](auto TensorDifference::*form) {
    return std::ranges::any_of(found.tensors, [&](const auto& t) { return !(t.*form); });
  };
  return found.num_identical == 0 && lacks(&TensorDifference::a) && lacks(&TensorDifference::b) &&
         std::ranges::all_of(found.tensors, [](const auto& t) { return !t.a || !t.b; });
}

// Training writes model.toml, and tensors under the names of lamina.
bool has_own_names(const std::string& directory) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(directory) / "model.toml", ignored);
}

// Lines of all tensors; one note for a published model and a checkpoint, which share no name.
std::string tensor_lines(const Differences& found, const std::string& left,
                         const std::string& right, const Arguments& a) {
  const bool own_left = has_own_names(left);
  if (share_no_name(found) && own_left != has_own_names(right))
    return fmt::format(
        "  no name is in both: {} has published names, and {} the names of lamina\n"
        "  `lamina ckpt export {} --to DIR` writes {} under published names, to compare DIR\n",
        own_left ? "B" : "A", own_left ? "A" : "B", shell_path(a.positionals[own_left ? 0 : 1]),
        own_left ? "A" : "B");
  std::string out;
  for (const TensorDifference& tensor : found.tensors) out += line_of(tensor) + "\n";
  return out;
}

int run_diff(const Arguments& a, const Device&) {
  const std::string left = directory_of(a.positionals[0]), right = directory_of(a.positionals[1]);
  // An adapter has no other tensors, and a checkpoint has its adapter in this form, too.
  const bool adapters = model::is_adapter(left) || model::is_adapter(right);
  if (adapters) {
    check_has_adapter(left, right);
    check_has_adapter(right, left);
  }
  std::vector<std::string> sets = {adapters ? std::string(publishers::kAdapterStem) : "model"};
  std::string not_compared;
  for (const std::string& set : {std::string(weights::kAverageStem), std::string("optimizer")}) {
    const bool in_left = io::has_weight_set(left, set), in_right = io::has_weight_set(right, set);
    if (in_left && in_right) sets.push_back(set);
    if (!adapters && in_left != in_right)
      not_compared += fmt::format("{}: only in {}, not compared\n", set, in_left ? "A" : "B");
  }
  bool same = true;
  JsonWriter json(2);
  json.begin_object().key("a").value(left).key("b").value(right);
  std::string text = fmt::format("A  {}\nB  {}\n", left, right);
  for (const std::string& set : sets) {
    const io::WeightFiles of_left = open_set(left, set, right, a.globals),
                          of_right = open_set(right, set, left, a.globals);
    of_left.check_index();
    of_right.check_index();
    const Differences found = weights::differences(of_left, of_right);
    same = same && found.tensors.empty();
    json.key(set);
    write_json(json, found);
    text +=
        fmt::format("{}: {} identical, {} not\n", set, found.num_identical, found.tensors.size());
    text += tensor_lines(found, left, right, a);
  }
  text += not_compared;
  json.key("same").value(same).end_object();
  print(a.flag("json") ? json.text() + "\n" : text);
  return same ? 0 : static_cast<int>(ExitCode::numerical);
}

}  // namespace

Command ckpt_diff_command() {
  return {.name = "ckpt diff",
          .summary = "shows how the tensors of two checkpoints differ",
          .details =
              "Compares tensors by their names in the files: missing, another shape or type, or "
              "other values, with the largest difference, absolute and relative to the largest "
              "value of A. "
              "Rows of a GGUF file are compared in the published order, and quantised weights as a "
              "whole, with their scales. "
              "Optimizer state is compared if both have it. Exits with 0 if all "
              "are the same, with 3 if they differ. A checkpoint and a published model have "
              "different names: export the checkpoint first.",
          .options = {json_option()},
          .positionals = {{.name = "A",
                           .doc = "A run directory, a checkpoint, a Hugging Face directory, an "
                                  "adapter or a GGUF file."},
                          {.name = "B", .doc = "Another one."}},
          .examples = {"lamina ckpt diff runs/a runs/b",
                       "lamina ckpt diff runs/a/checkpoints/best runs/a --json"},
          .run = run_diff};
}

}  // namespace lamina::cli
