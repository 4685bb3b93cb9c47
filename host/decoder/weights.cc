#include "decoder/weights.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/float16.h"
#include "core/suggest.h"

namespace lamina::decoder {
namespace {

std::string expand(std::string pattern, std::int64_t layer) {
  for (std::size_t at; (at = pattern.find("{L}")) != std::string::npos;)
    pattern.replace(at, 3, std::to_string(layer));
  return pattern;
}

Shape published_shape(const Shape& ours, const registry::TensorRow& row) {
  Shape shape = ours;
  for (const registry::Transform& t : row.transforms)
    if (t.kind == registry::Transform::Kind::transpose) std::swap(shape[0], shape[1]);
  return shape;
}

// Rows of the map for each parameter; a tied head has none.
std::vector<std::pair<int, const registry::TensorRow*>> rows_of_parameters(const Model& model) {
  std::vector<std::pair<int, const registry::TensorRow*>> out;
  const auto& parameters = model.parameters().all();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    for (const registry::TensorRow& row : model.family().tensor_rows())
      if (!row.ignore && row.block == parameters[i].block && row.param == parameters[i].desc.name)
        out.emplace_back(static_cast<int>(i), &row);
  return out;
}

// `name` under every way to put on or take off one of the family's prefixes.
std::vector<std::string> spellings(const std::string& name,
                                   const std::vector<std::string>& prefixes) {
  std::vector<std::string> bare{name};
  for (const std::string& prefix : prefixes)
    if (name.starts_with(prefix)) bare.push_back(name.substr(prefix.size()));
  std::vector<std::string> out = bare;
  for (const std::string& prefix : prefixes)
    for (const std::string& b : bare) out.push_back(prefix + b);
  return out;
}

// "h.*.attn.bias" with {L} and * standing for anything.
bool fits(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  std::size_t wildcard = pattern.starts_with("{L}") ? 3 : pattern[0] == '*' ? 1 : 0;
  if (wildcard == 0)
    return !text.empty() && pattern[0] == text[0] && fits(pattern.substr(1), text.substr(1));
  for (std::size_t skip = 0; skip <= text.size(); ++skip)
    if (fits(pattern.substr(wildcard), text.substr(skip))) return true;
  return false;
}

bool is_ignored(const Model& model, const std::string& name) {
  for (const registry::TensorRow& row : model.family().tensor_rows()) {
    bool unused = row.ignore || (row.tied && model.options().head.tied);
    if (!unused) continue;
    for (const std::string& spelling : spellings(name, model.family().tensor_prefixes()))
      if (fits(row.published, spelling)) return true;
  }
  return false;
}

[[noreturn]] void refuse(const std::string& where, std::string what,
                         std::vector<std::string> notes) {
  throw UserError(ExitCode::checkpoint, {where, std::move(what), std::move(notes)});
}

void check_shape(const io::WeightFiles& files, const PublishedTensor& tensor,
                 const Parameter& parameter) {
  io::TensorView view = files.tensor(tensor.name);
  if (view.shape == tensor.shape) return;
  refuse(files.path(),
         fmt::format("tensor '{}' is {}; the config asks for {}", tensor.name,
                     to_string(view.shape), to_string(tensor.shape)),
         {fmt::format("for parameter '{}'", parameter.name),
          "use the config.json that belongs to these weights"});
}

void check_nothing_left(const Model& model, const io::WeightFiles& files,
                        const std::unordered_set<std::string>& used) {
  std::vector<std::string> left;
  for (std::string_view name : files.names())
    if (!used.contains(std::string(name)) && !is_ignored(model, std::string(name)))
      left.emplace_back(name);
  if (left.empty()) return;
  refuse(files.path(),
         fmt::format("{} tensor{} that family '{}' has no use for, eg '{}'", left.size(),
                     left.size() == 1 ? "" : "s", model.family().name(), left.front()),
         {fmt::format("num_hidden_layers is {}; is this the right config for these weights?",
                      model.config().num_layers())});
}

}  // namespace

std::vector<PublishedTensor> match_weights(const Model& model, const io::WeightFiles& files) {
  const auto& parameters = model.parameters().all();
  std::vector<PublishedTensor> out(parameters.size());
  std::unordered_set<std::string> used;
  bool own_names =
      std::ranges::all_of(parameters, [&](const Parameter& p) { return files.contains(p.name); });
  if (own_names) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      out[i] = {parameters[i].name, parameters[i].desc.shape, static_cast<int>(i), nullptr};
      used.insert(parameters[i].name);
    }
  } else {
    std::vector<std::string> expected(parameters.size());
    for (auto [index, row] : rows_of_parameters(model)) {
      std::size_t i = static_cast<std::size_t>(index);
      std::string name = expand(row->published, parameters[i].layer);
      if (expected[i].empty()) expected[i] = name;
      out[i].parameter = index;
      if (!out[i].row) out[i].row = row;
      for (const std::string& spelling : spellings(name, model.family().tensor_prefixes())) {
        if (!out[i].name.empty() || !files.contains(spelling)) continue;
        out[i] = {spelling, published_shape(parameters[i].desc.shape, *row), index, row};
        used.insert(spelling);
      }
    }
    std::vector<std::string> names(files.names().begin(), files.names().end());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!out[i].name.empty() || (out[i].row && out[i].row->optional)) continue;
      std::string wanted = expected[i].empty() ? parameters[i].name : expected[i];
      std::string nearest = nearest_name(wanted, names);
      std::vector<std::string> notes{fmt::format("for parameter '{}'", parameters[i].name)};
      if (!nearest.empty()) notes.push_back(fmt::format("the nearest name there is '{}'", nearest));
      refuse(files.path(), fmt::format("tensor '{}' is missing", wanted), notes);
    }
  }
  for (const PublishedTensor& tensor : out)
    if (!tensor.name.empty())
      check_shape(files, tensor, parameters[static_cast<std::size_t>(tensor.parameter)]);
  check_nothing_left(model, files, used);
  return out;
}

std::vector<PublishedTensor> published_tensors(const Model& model) {
  std::vector<PublishedTensor> out;
  std::vector<bool> done(model.parameters().all().size());
  for (auto [index, row] : rows_of_parameters(model)) {
    if (done[static_cast<std::size_t>(index)]) continue;
    done[static_cast<std::size_t>(index)] = true;
    const Parameter& p = model.parameters()[index];
    out.push_back(
        {expand(row->published, p.layer), published_shape(p.desc.shape, *row), index, row});
  }
  for (std::size_t i = 0; i < done.size(); ++i)
    if (!done[i])
      user_error(ExitCode::checkpoint, "export",
                 "family '{}' publishes no tensor for parameter '{}'; keep lamina's own format",
                 model.family().name(), model.parameters()[static_cast<int>(i)].name);
  return out;
}

namespace {

float element_as_float(const io::TensorView& view, std::size_t i) {
  const std::byte* at = view.bytes.data() + i * static_cast<std::size_t>(size_bytes(view.dtype));
  auto load = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (view.dtype) {
    case DType::f32:
      return load(float{});
    case DType::bf16:
      return to_float(load(bfloat16{}));
    case DType::f16:
      return to_float(load(float16{}));
    case DType::f64:
      return static_cast<float>(load(double{}));
    default:
      user_error(ExitCode::checkpoint, std::string(view.name),
                 "has element type {}; parameters are f32, f16, bf16 or f64", name(view.dtype));
  }
}

void transpose(std::span<const float> in, std::int64_t rows, std::int64_t cols,
               std::span<float> out) {
  constexpr std::int64_t kTile = 32;
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (std::int64_t c0 = 0; c0 < cols; c0 += kTile)
      for (std::int64_t r = r0; r < std::min(rows, r0 + kTile); ++r)
        for (std::int64_t c = c0; c < std::min(cols, c0 + kTile); ++c)
          out[static_cast<std::size_t>(c * rows + r)] = in[static_cast<std::size_t>(r * cols + c)];
}

// Applies one transform, forwards or undone, to a tensor of `shape`, which changes with it.
void apply(const registry::Transform& t, bool undo, Shape& shape, std::vector<float>& values) {
  switch (t.kind) {
    case registry::Transform::Kind::transpose: {
      std::vector<float> turned(values.size());
      transpose(values, shape[0], shape[1], turned);
      std::swap(shape[0], shape[1]);
      values = std::move(turned);
      return;
    }
    case registry::Transform::Kind::add: {
      float number = static_cast<float>(undo ? -t.number : t.number);
      for (float& v : values) v += number;
      return;
    }
    case registry::Transform::Kind::mul: {
      float number = static_cast<float>(t.number);
      for (float& v : values) v = undo ? v / number : v * number;
      return;
    }
  }
}

}  // namespace

void from_published(const PublishedTensor& tensor, const io::TensorView& view,
                    std::span<float> out) {
  std::vector<float> values(out.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = element_as_float(view, i);
  Shape shape = view.shape;
  if (tensor.row)
    for (const registry::Transform& t : tensor.row->transforms) apply(t, false, shape, values);
  std::ranges::copy(values, out.begin());
}

std::vector<float> to_published(const PublishedTensor& tensor, std::span<const float> ours) {
  std::vector<float> values(ours.begin(), ours.end());
  if (!tensor.row) return values;
  Shape shape = tensor.shape;  // of ours: undo every transpose once more
  for (const registry::Transform& t : tensor.row->transforms)
    if (t.kind == registry::Transform::Kind::transpose) std::swap(shape[0], shape[1]);
  for (std::size_t i = tensor.row->transforms.size(); i-- > 0;)
    apply(tensor.row->transforms[i], true, shape, values);
  return values;
}

namespace {

std::uint64_t hash_name(std::string_view name) {  // FNV-1a: stable across builds and machines
  std::uint64_t h = 14695981039346656037ull;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

// Draw i of the stream: four uniform numbers in (0, 1), by Philox4x32-10.
std::array<double, 4> uniforms(std::uint64_t seed, std::uint64_t stream, std::uint64_t i) {
  r123::Philox4x32::ctr_type counter{
      {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
       static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}};
  r123::Philox4x32::key_type key{
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  auto bits = r123::Philox4x32{}(counter, key);
  std::array<double, 4> out;
  for (std::size_t k = 0; k < 4; ++k) out[k] = (static_cast<double>(bits[k]) + 0.5) * 0x1p-32;
  return out;
}

// Normal draws by Box & Muller 1958, cut at two deviations when asked.
class NormalStream {
 public:
  NormalStream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  double next(bool truncated) {
    for (;;) {
      if (have_ == 0) refill();
      double value = ready_[--have_];
      if (!truncated || std::abs(value) <= 2) return value;
    }
  }

 private:
  void refill() {
    std::array<double, 4> u = uniforms(seed_, stream_, counter_++);
    for (std::size_t pair : {0u, 2u}) {
      double radius = std::sqrt(-2 * std::log(u[pair])), angle = 2 * M_PI * u[pair + 1];
      ready_[pair] = radius * std::cos(angle);
      ready_[pair + 1] = radius * std::sin(angle);
    }
    have_ = 4;
  }

  std::uint64_t seed_, stream_, counter_ = 0;
  std::array<double, 4> ready_{};
  std::size_t have_ = 0;
};

}  // namespace

void initialise(const Parameter& parameter, std::uint64_t seed, std::span<float> out) {
  using Kind = registry::InitSpec::Kind;
  const registry::InitSpec& init = parameter.desc.init;
  std::uint64_t stream = hash_name(parameter.name);
  auto fill = [&](double value) { std::ranges::fill(out, static_cast<float>(value)); };
  auto normal = [&](double deviation, bool truncated) {
    NormalStream draws(seed, stream);
    for (float& v : out) v = static_cast<float>(deviation * draws.next(truncated));
  };
  auto uniform = [&](auto map) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(
          map(init.a + (init.b - init.a) * uniforms(seed, stream, i / 4)[i % 4]));
  };
  switch (init.kind) {
    case Kind::zeros:
      return fill(0);
    case Kind::ones:
      return fill(1);
    case Kind::constant:
      return fill(init.a);
    case Kind::normal:
      return normal(init.a, false);
    case Kind::truncated_normal:
      return normal(init.a, true);
    case Kind::fan_in:
      return normal(init.a / std::sqrt(static_cast<double>(parameter.desc.shape[-1])), false);
    case Kind::uniform:
      return uniform([](double v) { return v; });
    case Kind::log_uniform:
      return uniform([](double v) { return std::log(v); });
  }
}

namespace {

constexpr std::size_t kAlign = 64;
std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

void store(std::span<const float> values, DType dtype, std::byte* out) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::bf16) {
      reinterpret_cast<bfloat16*>(out)[i] = to_bfloat16(values[i]);
    } else if (dtype == DType::f64) {
      reinterpret_cast<double*>(out)[i] = values[i];
    } else {
      LAMINA_ASSERT(dtype == DType::f32);
      reinterpret_cast<float*>(out)[i] = values[i];
    }
  }
}

// Bytes of a file can be used where they lie: right type, nothing to transform, aligned elements.
bool usable_in_place(const PublishedTensor& tensor, const io::TensorView& view, DType wanted) {
  bool plain = !tensor.row || tensor.row->transforms.empty();
  bool is_aligned = reinterpret_cast<std::uintptr_t>(view.bytes.data()) %
                        static_cast<std::uintptr_t>(size_bytes(view.dtype)) ==
                    0;
  return plain && is_aligned && view.dtype == wanted;
}

}  // namespace

Weights Weights::load(const Model& model, std::shared_ptr<const io::WeightFiles> files,
                      DType compute, const Backend& backend) {
  std::vector<PublishedTensor> tensors = match_weights(model, *files);
  const auto& parameters = model.parameters().all();
  Weights out;
  out.files_ = files;
  out.pointers_.resize(parameters.size());
  out.mapped_.resize(parameters.size());
  std::vector<std::size_t> offsets(parameters.size());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    DType wanted = parameters[i].used_dtype(compute);
    if (!tensors[i].name.empty()) {
      io::TensorView view = files->tensor(tensors[i].name);
      if (usable_in_place(tensors[i], view, wanted)) {
        out.pointers_[i] = const_cast<std::byte*>(view.bytes.data());
        out.mapped_[i] = true;
        continue;
      }
    }
    offsets[i] = bytes;
    bytes += aligned(static_cast<std::size_t>(parameters[i].num_elements() * size_bytes(wanted)));
  }
  out.buffer_ = backend.allocate(bytes);
  std::vector<float> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (out.mapped_[i]) continue;
    out.pointers_[i] = out.buffer_->data() + offsets[i];
    values.resize(static_cast<std::size_t>(parameters[i].num_elements()));
    if (tensors[i].name.empty())
      decoder::initialise(parameters[i], 0, values);  // an optional tensor that is not there
    else
      from_published(tensors[i], files->tensor(tensors[i].name), values);
    store(values, parameters[i].used_dtype(compute), out.buffer_->data() + offsets[i]);
  }
  return out;
}

Weights Weights::initialise(const Model& model, std::uint64_t seed, DType compute,
                            const Backend& backend) {
  const auto& parameters = model.parameters().all();
  Weights out;
  out.mapped_.resize(parameters.size());
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
  for (const Parameter& p : parameters) {
    offsets.push_back(bytes);
    bytes +=
        aligned(static_cast<std::size_t>(p.num_elements() * size_bytes(p.used_dtype(compute))));
  }
  out.buffer_ = backend.allocate(bytes);
  std::vector<float> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    values.resize(static_cast<std::size_t>(parameters[i].num_elements()));
    decoder::initialise(parameters[i], seed, values);
    store(values, parameters[i].used_dtype(compute), out.buffer_->data() + offsets[i]);
    out.pointers_.push_back(out.buffer_->data() + offsets[i]);
  }
  return out;
}

}  // namespace lamina::decoder
