#include "weights/check/tensors.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/log.h"
#include "io/stored_weight.h"
#include "lamina/names.h"
#include "publishers/formats.h"
#include "weights/match/pattern.h"

namespace lamina::weights {
namespace {

bool same_values(const io::StoredWeight& a, const io::StoredWeight& b) {
  if (a.shape() != b.shape()) return false;
  if (a.is_plain() && b.is_plain() && a.data().dtype == b.data().dtype)
    return std::ranges::equal(a.data().bytes, b.data().bytes);
  constexpr std::int64_t kCompared = 1 << 16;
  std::vector<float> of_a(kCompared), of_b(kCompared);
  for (std::int64_t at = 0, total = a.shape().num_elements(); at < total; at += kCompared) {
    const std::size_t count = static_cast<std::size_t>(std::min(kCompared, total - at));
    a.decode(at, 1, std::span(of_a).first(count));
    b.decode(at, 1, std::span(of_b).first(count));
    if (!std::ranges::equal(std::span(of_a).first(count), std::span(of_b).first(count)))
      return false;
  }
  return true;
}

// Decides whether the family knows names without a parameter.
class Ignored {
 public:
  explicit Ignored(const decoder::Model& model) : model_(model) {
    for (const decoder::Parameter& p : model.parameters().all())
      if (p.block != 0) block_of_[p.layer] = p.block;
  }

  // Returns the row that ignores the name; null if there is none.
  const registry::TensorRow* by(const std::string& name) const {
    const std::vector<std::string> spelled =
        spellings(publishers::without_wrappers(name), model_.family().tensor_prefixes());
    for (const registry::TensorRow& row : model_.family().tensor_rows())
      if (std::ranges::any_of(spelled, [&](const std::string& s) { return fits_row(row, s); }))
        return &row;
    return nullptr;
  }

 private:
  bool fits_row(const registry::TensorRow& row, std::string_view name) const {
    if (!row.ignore && !row.surplus && !(row.tied && model_.options().head.tied)) return false;
    std::int64_t layer = -1;
    const std::int64_t num_layers = model_.config().num_layers();
    if (!fits(row.published, name, layer, num_layers)) return false;
    // Prediction layers of the model count as layers of the model.
    const std::int64_t own = num_layers + (row.ignore ? model_.mtp_depth() : 0);
    const bool beyond = layer >= own;
    if (row.ignore && row.block != 0) {
      const auto found = block_of_.find(layer);
      return found != block_of_.end() && found->second == row.block;
    }
    return row.beyond || row.surplus ? beyond == row.beyond : true;
  }

  const decoder::Model& model_;
  std::unordered_map<std::int64_t, std::uint32_t> block_of_;
};

bool is_integer(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }

[[noreturn]] void refuse_tensor(const std::string& where, std::string what,
                                std::vector<std::string> notes) {
  throw UserError(ExitCode::checkpoint, {where, std::move(what), std::move(notes)});
}

// Returns the transform that a row of the tensor map would need for a stored tensor of this shape,
// in the SDK's words; empty if one step is not enough.
std::string missing_transform(const Shape& stored, const Shape& expected) {
  if (stored.ndim() == expected.ndim() && stored.ndim() >= 2) {
    Shape transposed = stored;
    std::swap(transposed[-1], transposed[-2]);
    if (transposed == expected) return "kTranspose";
  }
  if (stored.ndim() != expected.ndim() + 1) return {};
  for (int dim = 0; dim < stored.ndim(); ++dim) {
    std::vector<std::int64_t> others(stored.dims().begin(), stored.dims().end());
    others.erase(others.begin() + dim);
    if (stored[dim] == 1 && Shape(others) == expected) return fmt::format("squeezed({})", dim);
  }
  return {};
}

// Advice about the shape of an adapter's tensor: its config has the rank, and the model has the
// other sizes.
std::string advice_on_adapter(std::string_view parameter, const Shape& stored,
                              const Shape& expected) {
  const int rank_dim = parameter.ends_with(decoder::kAdapterDown) ? -2 : -1;
  if (!parameter.ends_with(decoder::kAdapterMagnitude) && stored.ndim() == expected.ndim() &&
      stored.ndim() >= 2 && stored[rank_dim] != expected[rank_dim])
    return fmt::format("use the {} that belongs to these weights", publishers::kAdapterConfig);
  return "the adapter was trained over another model: give that one";
}

// Checks that matched tensors have the right type and shape, and that nothing is left over.
class Checker {
 public:
  Checker(const decoder::Model& model, const io::WeightFiles& files, std::string layers)
      : model_(model), files_(files), layers_(std::move(layers)) {}

  void run(const TensorMap& map) const {
    std::unordered_set<std::string_view> used;
    for (const PublishedTensor& tensor : map.tensors()) check(map, tensor, used);
    check_nothing_left(map, used);
  }

 private:
  void check(const TensorMap& map, const PublishedTensor& tensor,
             std::unordered_set<std::string_view>& used) const {
    const io::StoredWeight stored(files_, tensor.name);
    const Piece& piece = map.pieces()[static_cast<std::size_t>(tensor.pieces.front())];
    const decoder::Parameter& parameter = model_.parameters()[piece.parameter];
    const std::string whose = fmt::format("for parameter '{}'", parameter.name);
    const bool integers = parameter.desc.dtype && is_integer(*parameter.desc.dtype);
    if ((stored.is_uncompressed() && is_integer(stored.data().dtype)) != integers)
      refuse_tensor(
          files_.path_of(stored.data().name),
          fmt::format("tensor '{}' has element type {}; expected {}", tensor.name,
                      name(stored.data().dtype), integers ? "i32 or i64" : "f32, f16, bf16 or f64"),
          {whose});
    if (stored.shape() != tensor.shape) refuse_shape(tensor, stored, parameter.name);
    used.insert(tensor.name);
    for (std::string_view name : stored.names()) used.insert(name);
  }

  [[noreturn]] void refuse_shape(const PublishedTensor& tensor, const io::StoredWeight& stored,
                                 const std::string& parameter) const {
    std::vector<std::string> notes = {
        fmt::format("for parameter '{}'", parameter),
        decoder::is_adapter(parameter) ? advice_on_adapter(parameter, stored.shape(), tensor.shape)
        : files_.gguf()                ? "the metadata of the file belongs to other weights: "
                                         "convert or download the model again"
                                       : "use the config.json that belongs to these weights"};
    if (const std::string step = missing_transform(stored.shape(), tensor.shape); !step.empty())
      notes.push_back(
          fmt::format("if you write the plugin: {} in this tensor's row of its map would give {}",
                      step, to_string(tensor.shape)));
    refuse_tensor(files_.path_of(stored.data().name),
                  fmt::format("tensor '{}' is {}, but the config requires {}",
                              files_.stored_name(tensor.name), to_string(stored.shape()),
                              to_string(tensor.shape)),
                  std::move(notes));
  }

  // Files may contain a copy of the table under the name of a tied head. A different matrix there
  // must not be ignored silently.
  void check_tied(const TensorMap& map, std::string_view head) const {
    const int embed = model_.parameters().find(LAMINA_NAME_EMBED);
    const std::string& table = map.tensor_of(map.pieces_of(embed).front()).name;
    if (same_values(io::StoredWeight(files_, head), io::StoredWeight(files_, table))) return;
    refuse_tensor(
        files_.path_of(head),
        fmt::format("tensor '{}' differs from '{}', but the config says that the head is the "
                    "token table",
                    head, table),
        {fmt::format("tie_word_embeddings = false, or the file's older name for it, uses both; if "
                     "the head is not wanted, remove '{}'",
                     head)});
  }

  // Exporters of GPTQ write a bias of zeros beside each packed weight.
  bool is_zero_bias(std::string_view name) const {
    constexpr std::string_view kBias = ".bias";
    if (!name.ends_with(kBias)) return false;
    const std::string module(name.substr(0, name.size() - kBias.size()));
    return files_.packed(module + ".weight") &&
           std::ranges::all_of(files_.tensor(name).bytes,
                               [](std::byte b) { return b == std::byte{0}; });
  }

  std::string advice_on_left(const std::vector<std::string>& left) const {
    const std::int64_t num_layers = model_.config().num_layers();
    const bool any_beyond = std::ranges::any_of(left, [&](const std::string& name) {
      std::int64_t layer = -1;
      return fits("*.{L}.*", name, layer) && layer >= num_layers;
    });
    if (any_beyond)
      return fmt::format("num_hidden_layers is {}; check that the config belongs to these weights",
                         num_layers);
    return files_.gguf() ? "a model of this metadata has no such tensors; use the safetensors "
                           "files of the same model"
                         : "a model of this config has no such tensors; check that the config "
                           "belongs to these weights";
  }

  void check_nothing_left(const TensorMap& map,
                          const std::unordered_set<std::string_view>& used) const {
    const Ignored ignored(model_);
    std::vector<std::string> left, others;
    for (std::string_view name : files_.names()) {
      if (used.contains(name) || used.contains(files_.stored_name(name))) continue;
      if (is_zero_bias(name)) continue;
      if (const registry::TensorRow* row = ignored.by(std::string(name))) {
        if (row->tied) check_tied(map, name);
        continue;
      }
      // A checkpoint may also contain encoders for images and sound.
      const bool other =
          model_.config().in_wrapper() && !layers_.empty() && !name.starts_with(layers_);
      // transformers saves shared experts of width 0.
      if (!other && files_.tensor(name).shape.num_elements() == 0) continue;
      (other ? others : left).emplace_back(name);
    }
    if (!others.empty())
      log::info("{}: {} tensors outside the language model are not used, eg '{}'", files_.path(),
                others.size(), others.front());
    if (left.empty()) return;
    std::vector<std::string> notes{advice_on_left(left)};
    constexpr std::size_t kMaxNamed = 16;
    for (std::size_t i = 1; i < std::min(left.size(), kMaxNamed); ++i)
      notes.push_back(fmt::format("also '{}'", left[i]));
    if (left.size() > kMaxNamed)
      notes.push_back(fmt::format("and {} more", left.size() - kMaxNamed));
    refuse_tensor(files_.path(),
                  fmt::format("{} tensor{} that family '{}' does not use, eg '{}'", left.size(),
                              left.size() == 1 ? "" : "s", model_.family().name(), left.front()),
                  std::move(notes));
  }

  const decoder::Model& model_;
  const io::WeightFiles& files_;
  std::string layers_;
};

// The tensors of a parameter outside the layers: its own, and whether there are any of its module,
// eg: the parts of a packed weight.
struct TensorsOf {
  std::string_view whole;
  bool any = false;
};

TensorsOf tensors_among(const std::vector<std::string_view>& names, const decoder::Model& model,
                        std::string_view parameter) {
  TensorsOf out;
  for (std::string_view name : names)
    for (const std::string& spelled :
         spellings(publishers::without_wrappers(name), model.family().tensor_prefixes()))
      for (const registry::TensorRow& row : model.family().tensor_rows()) {
        if (row.ignore || row.block != 0 || row.param != parameter) continue;
        const std::string module = row.published.substr(0, row.published.rfind('.') + 1);
        out.any |= !module.empty() && spelled.starts_with(module);
        if (spelled == row.published) out.whole = name;
      }
  return out;
}

// Errors: the files contain none, but their index lists one.
TensorsOf tensors_of(const decoder::Model& model, const io::WeightFiles& files,
                     std::string_view parameter) {
  const TensorsOf out = tensors_among(files.names(), model, parameter);
  if (!out.any)
    for (std::string_view name : files.names_without_shard())
      if (tensors_among({name}, model, parameter).any) files.check_absent(name);
  return out;
}

}  // namespace

std::optional<bool> needed_tie(const decoder::Model& model, const io::WeightFiles& files) {
  const bool tied = model.options().head.tied;
  const TensorsOf table = tensors_of(model, files, LAMINA_NAME_EMBED),
                  head = tensors_of(model, files, LAMINA_NAME_HEAD);
  if (!table.any && !head.any) return {};
  if (!table.any || !head.any) return tied ? std::nullopt : std::optional(true);
  if (!tied) return {};
  const bool equal =
      !table.whole.empty() && !head.whole.empty() &&
      same_values(io::StoredWeight(files, head.whole), io::StoredWeight(files, table.whole));
  return equal ? std::nullopt : std::optional(false);
}

void check_tensors(const decoder::Model& model, const io::WeightFiles& files, std::string layers,
                   const TensorMap& map) {
  Checker(model, files, std::move(layers)).run(map);
}

}  // namespace lamina::weights
