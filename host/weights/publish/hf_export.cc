#include "weights/publish/hf_export.h"
#include "weights/publish/published.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "core/error.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "io/directories.h"
#include "io/directory_commit.h"
#include "io/hf_directory.h"
#include "io/stored_weight.h"
#include "publishers/formats.h"
#include "publishers/python_json.h"
#include "text/tokenizer.h"
#include "weights/check/finite.h"
#include "weights/publish/compressed.h"
#include "weights/publish/hf_config.h"
#include "weights/publish/published_form.h"
#include "weights/quantise/quantise.h"
#include "weights/stored.h"
#include "weights/weights.h"

namespace lamina::weights {
namespace {

namespace fs = std::filesystem;

// One tensor to be exported.
struct Transfer {
  io::TensorSpec spec;
  int tensor = -1;          // index in the exported map; -1: the bytes of the file
  std::string stored = {};  // its name in the files, which may contain wrapper modules
  std::optional<CompressedMatrix> matrix = {};  // one of its tensors
  std::string compressed = {};                  // the compressed weight whose first tensor it is
};

struct TransferPlan {
  TensorMap from, to;
  bool reassembled = false;        // `to` is the family's own form, assembled from parameters
  bool copies_compressed = false;  // at least one weight stays in its compressed form
  std::vector<Transfer> transfers;

  std::vector<CompressedMatrix> matrices() const {
    std::map<std::string, CompressedMatrix> by_module;
    for (const Transfer& t : transfers)
      if (t.matrix) by_module.emplace(t.matrix->module, *t.matrix);
    std::vector<CompressedMatrix> out;
    for (auto& [module, matrix] : by_module) out.push_back(std::move(matrix));
    return out;
  }
};

bool has_compressed(const TensorMap& map, const io::WeightFiles& files) {
  return std::ranges::any_of(map.tensors(), [&](const PublishedTensor& tensor) {
    return !io::StoredWeight(files, tensor.name).is_uncompressed();
  });
}

// Returns the published names of the model's tensors: the form's, else the files'; nothing if the
// files have our names.
std::vector<std::string> published_names(const decoder::Model& model, const PublishedForm* form,
                                         const TensorMap& from) {
  std::vector<std::string> out;
  if (form)
    out.assign(form->names().begin(), form->names().end());
  else if (!from.own_names())
    for (const PublishedTensor& tensor : from.tensors())
      out.push_back(name_of_values(model, tensor.name));
  return out;
}

// Published tensors stay unchanged, or change their type. Ours take the names and forms of `form`,
// else of the family's map. Compressed ones that change their type keep their names. A layout has
// the names of the family's map, in the folders of a multimodal model. `dtype` does not apply to
// parameters that declare a type.
TransferPlan plan_transfers(const decoder::Model& model, const io::WeightFiles& files,
                            const PublishedForm* form, const ExportOptions& options) {
  const std::optional<DType> dtype = options.dtype;
  TransferPlan out{.from = match_weights(model, files)};
  out.reassembled =
      out.from.own_names() || options.layout || (dtype && has_compressed(out.from, files));
  const std::vector<std::string> known = published_names(model, form, out.from);
  const std::vector<std::string_view> names(known.begin(), known.end());
  const bool wrapped = form ? form->is_wrapped() : model.config().in_wrapper();
  if (!out.reassembled)
    out.to = out.from;
  else if (options.layout || names.empty())
    out.to = published_tensors(model, options.layout.value_or(Layout::published),
                               wrapped ? layer_folders(model, names) : std::nullopt);
  else
    out.to = match_names(model, files.path(), names);
  for (std::size_t i = 0; i < out.to.tensors().size(); ++i) {
    const PublishedTensor& to = out.to.tensors()[i];
    const int parameter = out.to.pieces()[static_cast<std::size_t>(to.pieces.front())].parameter;
    const auto from = out.from.pieces_of(parameter);
    if (from.empty()) continue;  // optional, missing
    const std::string& source = out.from.tensor_of(from[0]).name;
    const DType stored =
        form ? form->dtype(to.name).value_or(form->main_dtype()) : published_dtype(files, source);
    if (const auto matrix =
            options.compressed ? compressed_matrix(model, out.to, to) : std::nullopt) {
      for (io::TensorSpec& spec : compressed_tensors(*matrix))
        out.transfers.push_back({std::move(spec), static_cast<int>(i), to.name, matrix});
      continue;
    }
    const bool free = !model.parameters()[parameter].desc.dtype;
    DType target = dtype && free ? *dtype : stored;
    if (!out.reassembled && target == stored) {
      const io::StoredWeight weight(files, to.name);
      out.copies_compressed = out.copies_compressed || !weight.is_uncompressed();
      const std::size_t first = out.transfers.size();
      for (std::string_view name : weight.names()) {
        const io::TensorView view = files.tensor(name);
        out.transfers.push_back(
            {{publishers::without_wrappers(name), view.dtype, view.shape}, -1, std::string(name)});
      }
      if (!weight.is_uncompressed()) out.transfers[first].compressed = to.name;
      continue;
    }
    if (!is_floating(target) && target != DType::i32 && target != DType::i64) target = DType::f32;
    out.transfers.push_back(
        {{publishers::without_wrappers(to.name), target, to.shape}, static_cast<int>(i), to.name});
  }
  return out;
}

// Reads the values of tensors to be exported.
class TransferReader {
 public:
  TransferReader(const io::WeightFiles& files, const TransferPlan& plan,
                 const ExportOptions& options, std::string to)
      : files_(files),
        plan_(plan),
        to_(std::move(to)),
        workers_(options.workers),
        blocks_(options.blocks),
        quantises_(options.compressed) {}

  // Borrowed; valid until the next call.
  std::span<const std::byte> bytes_of(const Transfer& t) {
    if (t.matrix) return bytes_ = compressed_bytes(*t.matrix, t.spec.name, blocks(t));
    if (t.tensor < 0) {
      require_copied_values(t);
      return files_.tensor(t.stored).bytes;
    }
    if (quantises_) require_plain_values(t);
    const std::vector<float> values = plan_.reassembled ? assembled(t) : decoded(t);
    if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
      for (const std::string& source : sources(t)) require_finite(files_, source);
    require_range(values, t.spec, to_, quantises_);
    bytes_.resize(values.size() * static_cast<std::size_t>(size_bytes(t.spec.dtype)));
    store(values, t.spec.dtype, 0, bytes_.data());
    return bytes_;
  }

 private:
  // Returns the stored tensors of its values.
  std::vector<std::string> sources(const Transfer& t) const {
    if (!plan_.reassembled) return {t.stored};
    std::vector<std::string> out;
    const PublishedTensor& tensor = plan_.to.tensors()[static_cast<std::size_t>(t.tensor)];
    for (const int piece : tensor.pieces)
      for (const Piece& source :
           plan_.from.pieces_of(plan_.to.pieces()[static_cast<std::size_t>(piece)].parameter))
        out.push_back(plan_.from.tensor_of(source).name);
    return out;
  }

  // The quantised matrices of a directory are finite, so its plain tensors must be, too.
  void require_plain_values(const Transfer& t) const {
    for (const std::string& source : sources(t)) require_floats(source);
  }

  // The values of a compressed weight are computed from all of its tensors.
  void require_copied_values(const Transfer& t) const {
    if (!t.compressed.empty()) require_finite(files_, t.compressed);
    require_floats(t.stored);
  }

  void require_floats(const std::string& stored) const {
    if (is_floating(files_.tensor(stored).dtype)) require_finite(files_, stored);
  }

  std::vector<float> decoded(const Transfer& t) const {
    std::vector<float> values(static_cast<std::size_t>(t.spec.shape.num_elements()));
    io::StoredWeight(files_, t.stored).decode(0, 1, values);
    return values;
  }

  std::vector<float> assembled(const Transfer& t) {
    return assemble(plan_.to, t.tensor, [&](int parameter, std::int64_t first, std::int64_t count) {
      ours_.resize(static_cast<std::size_t>(count));
      read_parameter(plan_.from, files_, parameter, first, ours_);
      return std::span<const float>(ours_);
    });
  }

  // Every tensor of a matrix rounds it again: they are far apart in the file. Its shape needs no
  // values.
  std::vector<std::byte> blocks(const Transfer& t) {
    if (t.spec.dtype == DType::i64) return {};
    const CompressedMatrix& m = *t.matrix;
    std::vector<std::byte> out(static_cast<std::size_t>(m.format->bytes_of(m.rows * m.columns)));
    const PublishedTensor& tensor = plan_.to.tensors()[static_cast<std::size_t>(t.tensor)];
    if (are_given(tensor)) {
      for (const int piece : tensor.pieces)
        copy_rows(plan_.to.pieces()[static_cast<std::size_t>(piece)], m, out);
      return out;
    }
    const auto encode = [&](const RowSource& values) {
      encode_rows({t.stored, m.format, m.rows, m.columns}, files_.path(), values, workers_,
                  out.data());
    };
    if (plan_.reassembled) {
      const std::vector<float> whole = assembled(t);
      encode([&](std::int64_t first, std::span<float> to) {
        std::copy_n(whole.begin() + first, to.size(), to.begin());
      });
    } else {
      const io::StoredWeight weight(files_, t.stored);
      encode([&](std::int64_t first, std::span<float> to) { weight.decode(first, 1, to); });
    }
    return out;
  }

  // Returns whether all parameters of the tensor have blocks.
  bool are_given(const PublishedTensor& tensor) const {
    return blocks_ && std::ranges::all_of(tensor.pieces, [&](int piece) {
             const int p = plan_.to.pieces()[static_cast<std::size_t>(piece)].parameter;
             return !(*blocks_)[static_cast<std::size_t>(p)].empty();
           });
  }

  // Copies the rows of a parameter to their places in the tensor (see compressed_matrix()).
  void copy_rows(const Piece& piece, const CompressedMatrix& m, std::vector<std::byte>& out) const {
    const std::vector<std::byte>& blocks = (*blocks_)[static_cast<std::size_t>(piece.parameter)];
    const auto row_bytes = static_cast<std::size_t>(m.format->bytes_of(m.columns));
    const std::int64_t rows = piece.num_elements() / m.columns;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto from = static_cast<std::size_t>(piece.first / m.columns + row) * row_bytes;
      const auto to = static_cast<std::size_t>(begin_of_row(piece.view, row) / m.columns);
      std::copy_n(blocks.begin() + static_cast<std::ptrdiff_t>(from), row_bytes,
                  out.begin() + static_cast<std::ptrdiff_t>(to * row_bytes));
    }
  }

  const io::WeightFiles& files_;
  const TransferPlan& plan_;
  std::string to_;  // in errors
  const Workers& workers_;
  const std::vector<std::vector<std::byte>>* blocks_;  // may be null
  bool quantises_;
  std::vector<float> ours_;
  std::vector<std::byte> bytes_;
};

// Returns the floating type that most bytes of plain tensors are stored in.
DType main_dtype(const std::vector<Transfer>& transfers) {
  std::map<DType, std::uint64_t> bytes;
  for (const Transfer& t : transfers)
    if (!t.matrix && is_floating(t.spec.dtype)) bytes[t.spec.dtype] += io::num_bytes(t.spec);
  auto main = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return main == bytes.end() ? DType::f32 : main->first;
}

// Writes an object without the keys of compression, also of the text_config in it.
void write_uncompressed(JsonWriter& json, const JsonValue& object) {
  json.begin_object();
  for (const auto& [key, value] : object.members()) {
    if (publishers::is_compression_key(key)) continue;
    json.key(key);
    if (publishers::is_text_config(key) && value.is_object())
      write_uncompressed(json, value);
    else
      json.value(value);
  }
  json.end_object();
}

// Returns the config.json of the weights with the current type. Without a type the key stays: it
// then is the type of the values that programs compute from compressed weights.
std::string edited_config(const JsonValue& config, std::optional<DType> dtype, bool compressed) {
  JsonWriter json(2);
  json.begin_object();
  for (const auto& [key, value] : config.members()) {
    if (!compressed && publishers::is_compression_key(key)) continue;
    json.key(key);
    if (dtype && (key == "torch_dtype" || key == "dtype"))
      json.value(long_name(*dtype));
    else if (!compressed && publishers::is_text_config(key) && value.is_object())
      write_uncompressed(json, value);
    else
      json.value(value);
  }
  return json.end_object().text() + "\n";
}

std::string fresh_config(const decoder::Model& model, const std::string& directory, DType dtype) {
  HfConfigExtras extras{.dtype = std::string(long_name(dtype))};
  if (text::has_tokenizer(directory)) {
    auto tokenizer = text::load_tokenizer(directory);
    extras.bos_token = tokenizer->bos_id();
    extras.eos_token = tokenizer->eos_id();
    extras.pad_token = tokenizer->pad_id();
  }
  return hf_config(model.family().names(), model.config(), extras);
}

// Returns a config.json with the quantization_config of the plan for the directory `to`.
std::string quantised_config(const std::string& config, const decoder::Model& model,
                             const TransferPlan& plan, const std::string& to) {
  const std::vector<CompressedMatrix> matrices = plan.matrices();
  if (matrices.empty()) return config;
  if (const auto obstacle = obstacle_of_experts(model, plan.to, matrices))
    log::warning("{}: {}; lamina reads the directory right", to, *obstacle);
  const JsonDocument document =
      JsonDocument::parse(config, to + "/config.json", publishers::kPythonJson);
  JsonWriter json(2);
  json.begin_object();
  for (const auto& [key, value] : document.root().members())
    if (key != publishers::kQuantizationConfig) json.key(key).value(value);
  json.key(publishers::kQuantizationConfig);
  write_quantization_config(json, matrices, plain_modules(model, plan.to, matrices));
  return json.end_object().text() + "\n";
}

}  // namespace

void require_absent(const std::string& to) {
  if (to.empty())
    throw UserError(ExitCode::usage,
                    {"--to", "must not be empty", {"give the name of a new directory"}});
  if (to == "-")
    throw UserError(ExitCode::usage,
                    {"--to", "must be a directory, got '-'", {"a directory of that name is ./-"}});
  const std::string name = io::trimmed_path(to);
  std::error_code error;
  const fs::file_status status = fs::symlink_status(name, error);
  if (io::dangling_link_in(name) == name)
    throw UserError(ExitCode::usage, {to,
                                      "is a dangling link; --to must be a new directory",
                                      {"remove the link, or give the name of its target"}});
  if (fs::exists(status))
    throw UserError(ExitCode::usage, {to,
                                      "exists already; --to must be a new directory",
                                      {"choose another name, or remove it first"}});
  if (fs::path(name).filename() == "..")
    throw UserError(
        ExitCode::usage,
        {to, "ends with '..'; --to must be a new directory", {"give the name of the directory"}});
  io::refuse_dangling_link(name);
}

void check_compressed(const decoder::Model& model, const io::WeightFiles& files) {
  const std::optional<PublishedForm> form = PublishedForm::beside(files.path());
  plan_transfers(model, files, form ? &*form : nullptr, {.compressed = true});
}

Exported export_to_hf(const decoder::Model& model, const std::string& from, const std::string& to,
                      const ExportOptions& options,
                      const std::function<void(const std::string&)>& check) {
  require_absent(to);
  io::WeightFiles files(from);
  if (options.average) files.replace(from, kAverageStem);
  if (files.gguf())
    throw UserError(ExitCode::checkpoint, {from,
                                           "is a GGUF file, which lamina can read but not export",
                                           {"use the safetensors files of the same model"}});
  const std::optional<PublishedForm> form = PublishedForm::beside(from);
  const TransferPlan plan = plan_transfers(model, files, form ? &*form : nullptr, options);
  const bool published = fs::exists(fs::path(from) / "config.json");
  const DType main = main_dtype(plan.transfers);
  const auto edited = plan.copies_compressed ? std::nullopt : std::optional(main);
  std::string config =
      form        ? edited_config(form->config(), edited, true)
      : published ? edited_config(io::HfDirectory(from).config(), edited, !plan.reassembled)
                  : fresh_config(model, from, main);
  if (options.compressed) config = quantised_config(config, model, plan, to);

  Exported out;
  std::vector<io::TensorSpec> specs;
  std::unordered_map<std::string_view, const Transfer*> by_name;
  for (const Transfer& t : plan.transfers) {
    specs.push_back(t.spec);
    by_name[t.spec.name] = &t;
    out.num_bytes += io::num_bytes(t.spec);
  }
  out.num_tensors = static_cast<std::int64_t>(specs.size());
  TransferReader reader(files, plan, options, to);
  io::DirectoryCommit commit(to);
  // Before the weights: training may remove `from`, but not open files.
  io::copy_side_files(from, commit.path());
  io::WeightFilesOptions placing;
  if (form && !options.layout) placing.file_of = form->file_of();
  std::uint64_t done = 0;
  const auto bytes_of = [&](const io::TensorSpec& spec) {
    if (options.progress) options.progress(done, out.num_bytes);
    done += io::num_bytes(spec);
    return reader.bytes_of(*by_name.at(spec.name));
  };
  io::write_weight_files(commit.path(), specs, io::TensorSource(bytes_of), placing);
  if (options.progress) options.progress(done, out.num_bytes);
  io::write_durably(commit.path() + "/config.json", config);
  if (check) check(commit.path());
  commit.commit();
  return out;
}

}  // namespace lamina::weights
