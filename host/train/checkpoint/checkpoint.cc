#include "train/checkpoint/checkpoint.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "io/directories.h"
#include "io/directory_commit.h"
#include "io/manifest.h"
#include "io/stored_weight.h"
#include "io/weight_files.h"
#include "runtime/host_access.h"
#include "train/checkpoint/best_checkpoint.h"
#include "train/checkpoint/snapshot.h"
#include "train/loop/non_finite.h"
#include "train/loop/run_directory.h"
#include "train/loop/train_step.h"
#include "weights/match/tensor_map.h"
#include "weights/publish/peft.h"
#include "weights/weights.h"

namespace lamina::train {
namespace {

// Tensors "<prefix><parameter>" of one kind of memory; null for parameters without one. Tables of
// integers are f32 in memory and are written in their declared type.
struct Kind {
  std::string prefix;
  std::vector<TensorRef> data;
  std::vector<io::TensorSpec> specs;  // one per parameter
  bool is_average = false;
};

bool is_table(const decoder::Parameter& p) { return p.desc.dtype && !is_floating(*p.desc.dtype); }

// A tensor in blocks is written as rows of bytes.
io::TensorSpec weight_spec(const decoder::Parameter& p, const Type& kept) {
  if (!kept.storage) return {p.name, is_table(p) ? *p.desc.dtype : kept.dtype, p.desc.shape};
  Shape bytes = p.desc.shape;
  bytes[-1] = kept.storage->bytes_of(bytes[-1]);
  return {p.name, DType::u8, bytes};
}

Kind weights_of(const decoder::ParameterTable& parameters, const TrainState& state) {
  Kind out;
  for (int i = 0; i < static_cast<int>(parameters.all().size()); ++i) {
    out.data.push_back(state.kept(i));
    out.specs.push_back(weight_spec(parameters[i], state.kept(i).type()));
  }
  return out;
}

Kind averages_of(const decoder::ParameterTable& parameters, const TrainState& state) {
  Kind out = weights_of(parameters, state);
  out.data.assign(state.averages().begin(), state.averages().end());
  out.is_average = true;
  return out;
}

bool has_averages(const TrainState& state) {
  return std::ranges::any_of(state.averages(),
                             [](const TensorRef& average) { return static_cast<bool>(average); });
}

std::vector<Kind> optimizer_states_of(const decoder::ParameterTable& parameters,
                                      const TrainState& state) {
  std::vector<Kind> out;
  for (const OptimizerState& kept : state.optimizer_states()) {
    Kind& kind = out.emplace_back(Kind{kept.prefix, kept.data, {}});
    kind.specs.resize(kept.data.size());
    for (std::size_t i = 0; i < kept.data.size(); ++i)
      if (const std::optional<Type>& type = kept.types[i])
        kind.specs[i] = {kept.prefix + parameters.all()[i].name, type->dtype, type->shape};
  }
  return out;
}

// Checks the f32 values of a tensor, piece by piece, while they are written.
class FiniteCheck {
 public:
  FiniteCheck(const decoder::Parameter& p, bool is_average, std::int64_t step)
      : parameter_(p), is_average_(is_average), step_(step) {}

  // Throws NumericalError for a value that is not finite.
  void look(std::span<const std::byte> piece) {
    constexpr std::uint32_t kExponent = 0x7f800000;
    LAMINA_ASSERT(piece.size() % sizeof(float) == 0);
    const std::size_t count = piece.size() / sizeof(float);
    bool bad = false;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, piece.data() + i * sizeof bits, sizeof bits);
      bad |= (bits & kExponent) == kExponent;
    }
    if (bad) fail(piece, count);
    num_before_ += static_cast<std::int64_t>(count);
  }

 private:
  [[noreturn]] void fail(std::span<const std::byte> piece, std::size_t count) const {
    std::vector<float> values(count);
    std::memcpy(values.data(), piece.data(), piece.size());
    BadElement bad = *first_non_finite(values);
    bad.element += num_before_;
    throw NumericalError(
        ExitCode::numerical,
        {fmt::format("step {}", step_),
         fmt::format("after the update the {} {}", is_average_ ? "average of the weight" : "weight",
                     bad_element_text(parameter_, bad)),
         {"no checkpoint of this step is written; earlier ones stay",
          "try a lower optimizer.lr, a longer schedule.warmup_steps, or a larger optimizer.eps"}});
  }

  const decoder::Parameter& parameter_;
  bool is_average_;
  std::int64_t step_;
  std::int64_t num_before_ = 0;
};

// Writes the tensors of `kinds`, from the memory of the state or from a snapshot of it.
std::vector<io::FileDigest> write_tensors(const std::string& directory, const std::string& stem,
                                          const CheckpointContents& contents,
                                          const std::vector<Kind>& kinds, std::int64_t step) {
  const decoder::ParameterTable& parameters = contents.model.parameters();
  struct Source {
    TensorRef data;
    const decoder::Parameter* table;  // integers, which training never changes; else null
    const decoder::Parameter* made;   // an f32 weight that training changes; else null
    bool is_average;
  };
  std::vector<io::TensorSpec> specs;
  std::unordered_map<std::string_view, Source> sources;
  for (const Kind& kind : kinds)
    for (std::size_t i = 0; i < parameters.all().size(); ++i) {
      if (!kind.data[i]) continue;
      const decoder::Parameter& p = parameters.all()[i];
      specs.push_back(kind.specs[i]);
      const bool is_weight = kind.prefix.empty(),
                 is_made = is_weight && !p.learning.frozen && kind.specs[i].dtype == DType::f32;
      sources[kind.specs[i].name] = {.data = kind.data[i],
                                     .table = is_weight && is_table(p) ? &p : nullptr,
                                     .made = is_made ? &p : nullptr,
                                     .is_average = kind.is_average};
    }
  Queue& queue = contents.state.queue();
  std::vector<std::byte> table;
  auto stream = [&](const io::TensorSpec& spec, const io::ByteSink& file) {
    const Source& source = sources.at(spec.name);
    const std::uint64_t bytes = io::num_bytes(spec);
    std::optional<FiniteCheck> check;
    if (source.made) check.emplace(*source.made, source.is_average, step);
    const io::ByteSink sink = [&](std::span<const std::byte> piece) {
      if (check) check->look(piece);
      file(piece);
    };
    if (source.table) {
      table.resize(bytes);
      read_tensor<float>(queue, source.data, [&](std::span<const float> values) {
        weights::store(values, spec.dtype, 0, table.data());
      });
      sink(table);
    } else if (contents.snapshot && bytes > 0) {
      contents.snapshot->read(source.data, sink);
    } else {
      read_tensor<std::byte>(queue, source.data, sink);
    }
  };
  // With the step, files of two checkpoints never have the same header.
  std::map<std::string, std::string> metadata = {{"format", "pt"}, {"step", std::to_string(step)}};
  for (const io::TensorSpec& spec : specs)
    if (const formats::BlockFormat* format = sources.at(spec.name).data.type().storage)
      metadata[io::blocks_key(spec.name)] = format->name;
  return io::write_weight_files(directory, specs, stream, {.stem = stem, .metadata = metadata});
}

void read_tensors(const io::WeightFiles& files, const io::PartReader& reader,
                  const decoder::ParameterTable& parameters, const Kind& kind, Queue& queue,
                  const Workers& workers) {
  work_on_all(workers, std::ssize(parameters.all()), [&](std::int64_t parameter) {
    const auto i = static_cast<std::size_t>(parameter);
    if (!kind.data[i]) return;
    const io::TensorSpec& spec = kind.specs[i];
    io::TensorView view = files.tensor(spec.name);
    if (view.dtype != spec.dtype || !(view.shape == spec.shape))
      user_error(ExitCode::checkpoint, files.path(), "tensor '{}' is {}{}; this model needs {}{}",
                 view.name, name(view.dtype), to_string(view.shape), name(spec.dtype),
                 to_string(spec.shape));
    const bool table = kind.prefix.empty() && is_table(parameters.all()[i]);
    if (!table) {
      write_tensor<std::byte>(queue, kind.data[i], [&](std::span<std::byte> out) {
        reader.read(files.path_of(view.name), view.name, view.bytes, out.data());
      });
      return;
    }
    reader.read(files.path_of(view.name), view.name, view.bytes, nullptr);
    write_tensor<float>(queue, kind.data[i], [&](std::span<float> out) {
      io::StoredWeight(files, view.name).decode(0, 1, out);
    });
  });
}

// The parameters of a plugin may have changed since it trained the weights.
void check_names(const io::WeightFiles& files, const Kind& weights) {
  std::vector<std::string> lacking;
  for (std::size_t i = 0; i < weights.specs.size(); ++i)
    if (weights.data[i] && !files.contains(weights.specs[i].name))
      lacking.push_back(weights.specs[i].name);
  if (!lacking.empty()) weights::refuse_lacking(files.path(), lacking);
}

Progress progress_of(const JsonValue& info) {
  Progress out;
  const JsonValue step = info.at("step");
  out.step = step.as_int64();
  if (out.step < 0) step.fail(fmt::format("must be 0 or more, got {}", out.step));
  out.num_tokens = info.at("tokens").as_uint64();
  out.cursor = {info.at("epoch").as_uint64(), info.at("row").as_uint64()};
  out.data_fingerprint = info.at("data").as_string();
  if (const JsonValue loss = info.find(kValidationLossKey)) out.validation_loss = loss.as_double();
  if (const JsonValue rows = info.find(kValidationRowsKey)) out.validation_rows = rows.as_uint64();
  if (const JsonValue due = info.find("samples_due")) out.samples_due = due.as_bool();
  if (const JsonValue spikes = info.find("spikes")) {
    for (JsonValue loss : spikes.at("losses").elements())
      out.spikes.losses.push_back(loss.as_double());
    for (JsonValue norm : spikes.at("norms").elements())
      out.spikes.norms.push_back(norm.as_double());
    out.spikes.num_skipped = spikes.at("skipped").as_int64();
  }
  return out;
}

void write_spikes(JsonWriter& json, const SpikeHistory& spikes) {
  json.key("spikes").begin_object().key("losses").begin_array();
  for (double loss : spikes.losses) json.value(loss);
  json.end_array().key("norms").begin_array();
  for (double norm : spikes.norms) json.value(norm);
  json.end_array().key("skipped").value(spikes.num_skipped).end_object();
}

}  // namespace

void save_checkpoint(const std::string& path, const CheckpointContents& contents,
                     const Progress& progress) {
  if (contents.guard) contents.guard();
  // The run directory may be moved at any moment, and must not be made again.
  io::DirectoryCommit commit(path, io::DirectoryCommit::Above::one);
  const std::string& directory = commit.path();
  const decoder::ParameterTable& parameters = contents.model.parameters();
  std::vector<io::FileDigest> files = write_tensors(
      directory, "model", contents, {weights_of(parameters, contents.state)}, progress.step);
  auto moments = write_tensors(directory, "optimizer", contents,
                               optimizer_states_of(parameters, contents.state), progress.step);
  files.insert(files.end(), moments.begin(), moments.end());
  if (has_averages(contents.state)) {
    const auto average = write_tensors(directory, std::string(weights::kAverageStem), contents,
                                       {averages_of(parameters, contents.state)}, progress.step);
    files.insert(files.end(), average.begin(), average.end());
  }
  const auto write = [&](const std::string& name, const std::string& bytes) {
    files.push_back(io::write_durably(directory + "/" + name, bytes));
    files.back().name = name;
  };
  for (const SideFile& file : contents.side_files) {
    io::make_folder_of(directory + "/" + file.name);
    write(file.name, file.bytes);
  }
  if (contents.model.adapter()) {
    // Reads the values that were just written: those in memory may belong to a later step by now.
    const io::WeightFiles written(directory);
    const auto values = [&](int parameter) {
      return std::span<const float>(
          reinterpret_cast<const float*>(written.tensor(parameters[parameter].name).bytes.data()),
          static_cast<std::size_t>(parameters[parameter].num_elements()));
    };
    const auto form = weights::PublishedForm::beside(directory);
    const auto adapter =
        weights::write_adapter(contents.model, form ? &*form : nullptr, directory, values);
    files.insert(files.end(), adapter.begin(), adapter.end());
  }
  write("model.toml", contents.model_file);
  write("run.toml", contents.run_file);
  if (!text::has_tokenizer(directory))
    for (const std::string& name : contents.tokenizer.save(directory)) {
      const auto side = std::ranges::find(contents.side_files, name, &SideFile::name);
      if (side != contents.side_files.end()) {  // save() has written over it
        io::write_durably(directory + "/" + name, side->bytes);
        continue;
      }
      io::sync_file(directory + "/" + name);
      files.push_back(io::digest_file(directory + "/" + name));
      files.back().name = name;
    }
  io::write_manifest(directory, files, [&](JsonWriter& json) {
    const registry::PluginIdentity& plugin = contents.model.family().plugin();
    json.key("step").value(progress.step);
    json.key("tokens").value(progress.num_tokens);
    json.key("epoch").value(progress.cursor.epoch).key("row").value(progress.cursor.index);
    json.key("data").value(progress.data_fingerprint);
    if (progress.validation_loss) {
      json.key(kValidationLossKey).value(*progress.validation_loss);
      json.key(kValidationRowsKey).value(progress.validation_rows);
    }
    if (progress.samples_due) json.key("samples_due").value(true);
    if (!progress.spikes.losses.empty()) write_spikes(json, progress.spikes);
    json.key("family").value(contents.model.family().name());
    json.key("plugin").value(plugin.id + " " + plugin.version);
  });
  if (contents.guard) contents.guard();
  commit.commit();
}

void check_structure(const std::string& path) {
  if (auto difference =
          io::first_difference(path, io::read_manifest(path), io::ManifestCheck::structure))
    throw io::Damaged({"", *difference, {"use another checkpoint of this run (`lamina ckpt ls`)"}});
}

Progress read_progress(const std::string& path) {
  const io::FileManifest manifest = io::read_manifest(path);
  return progress_of(manifest.info());
}

Progress load_checkpoint(const std::string& path, const decoder::Model& model, TrainState& state,
                         const Workers& workers) {
  check_structure(path);
  const io::FileManifest manifest = io::read_manifest(path);
  Progress progress = progress_of(manifest.info());
  const io::PartReader reader(manifest);
  const io::WeightFiles weights(path, "model"), moments(path, "optimizer");
  const auto read = [&](const io::WeightFiles& from, const Kind& kind) {
    read_tensors(from, reader, model.parameters(), kind, state.queue(), workers);
  };
  const Kind own = weights_of(model.parameters(), state);
  check_names(weights, own);
  read(weights, own);
  for (const Kind& kind : optimizer_states_of(model.parameters(), state)) read(moments, kind);
  if (has_averages(state))
    read(io::WeightFiles(path, weights::kAverageStem), averages_of(model.parameters(), state));
  work_on_all(workers, std::ssize(model.parameters().all()),
              [&](std::int64_t i) { state.refresh_copy(static_cast<int>(i)); });
  return progress;
}

std::vector<std::string> remove_old_checkpoints(const std::string& run, std::int64_t keep,
                                                bool keep_best) {
  std::vector<std::string> problems;
  if (keep <= 0) return problems;
  // Also finishes removals that were interrupted the last time.
  io::remove_leftovers(checkpoints_directory(run));
  std::vector<CheckpointEntry> entries = list_checkpoints(run);
  const std::size_t kept = std::min(entries.size(), static_cast<std::size_t>(keep));
  entries.resize(entries.size() - kept);
  if (keep_best) {
    std::vector<UnreadCheckpoint> unread;
    const auto best = best_checkpoint(run, {}, &unread);
    const auto leave_out = [&](const std::string& path) {
      return std::erase_if(entries, [&](const auto& entry) { return entry.path == path; }) > 0;
    };
    if (best) leave_out(best->path);
    for (const UnreadCheckpoint& other : unread)
      if (leave_out(other.path)) problems.push_back(other.problem);
  }
  for (const CheckpointEntry& entry : entries) {
    try {
      io::remove_directory(entry.path);
    } catch (const DeviceError& e) {
      problems.push_back(e.what());
    }
  }
  return problems;
}

}  // namespace lamina::train
