#include "weights/match/map_builder.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "core/error.h"
#include "lamina/names.h"
#include "publishers/formats.h"
#include "weights/match/row_choice.h"

namespace lamina::weights {
namespace {

using TransformKind = registry::Transform::Kind;

// Maximum number of tensors from one row with {E}.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 20;
// Maximum number of tensors of a model. The names of more take seconds and gigabytes before the
// first file is opened; the largest published models have a quarter of them.
constexpr std::size_t kMaxTensors = std::size_t{1} << 19;

std::string replaced(std::string text, std::string_view what, std::int64_t by) {
  for (std::size_t at; (at = text.find(what)) != std::string::npos;)
    text.replace(at, what.size(), std::to_string(by));
  return text;
}

Shape inserted(const Shape& shape, int dim, std::int64_t size) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.insert(dims.begin() + dim, size);
  return Shape(dims);
}

Shape erased(const Shape& shape, int dim) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.erase(dims.begin() + dim);
  return Shape(dims);
}

[[noreturn]] void refuse_transforms(const decoder::Parameter& parameter,
                                    const registry::TensorRow& row) {
  throw PluginError({fmt::format("tensor row '{}'", row.published),
                     fmt::format("its transforms do not match parameter '{}', {}", parameter.name,
                                 to_string(parameter.desc.shape)),
                     {}});
}

// Returns the shapes from which the transforms, starting with number `from`, produce `shape`: [0] =
// before them, the last = `shape`. Parts keep their size along the dim that they share.
std::vector<Shape> stages_before(const decoder::Parameter& parameter,
                                 const registry::TensorRow& row, std::size_t from, Shape shape) {
  std::vector<Shape> out{shape};
  for (std::size_t i = row.transforms.size(); i-- > from;) {
    const registry::Transform& t = row.transforms[i];
    const bool one_more = t.kind == TransformKind::squeeze || t.kind == TransformKind::merge;
    const int change = one_more ? 1 : t.kind == TransformKind::split ? -1 : 0;
    const int ndim = shape.ndim() + change;
    const int dim = static_cast<int>(t.dim < 0 ? t.dim + ndim : t.dim);
    const bool has_dim = t.kind != TransformKind::add && t.kind != TransformKind::mul &&
                         t.kind != TransformKind::transpose;
    if (ndim > kMaxDims || (has_dim && (dim < 0 || dim >= ndim)) ||
        (t.kind == TransformKind::transpose && ndim < 2) ||
        (t.kind == TransformKind::move && t.index >= ndim) ||
        (t.kind == TransformKind::merge && (dim + 1 >= ndim || shape[dim] % t.count != 0)))
      refuse_transforms(parameter, row);
    if (t.kind == TransformKind::transpose) std::swap(shape[-1], shape[-2]);
    if (t.kind == TransformKind::strided &&
        __builtin_mul_overflow(shape[dim], std::int64_t{t.count}, &shape[dim]))
      refuse_transforms(parameter, row);
    if (t.kind == TransformKind::squeeze) shape = inserted(shape, dim, 1);
    if (t.kind == TransformKind::split) {
      const std::int64_t merged = shape[dim] * shape[dim + 1];
      shape = erased(shape, dim);
      shape[dim] = merged;
    }
    if (t.kind == TransformKind::merge) {
      shape[dim] /= t.count;
      shape = inserted(shape, dim + 1, t.count);
    }
    if (t.kind == TransformKind::move) {
      const int at = static_cast<int>(t.index);
      const std::int64_t size = shape[at];
      shape = inserted(erased(shape, at), dim, size);
    }
    out.insert(out.begin(), shape);
  }
  return out;
}

StridedView whole(const Shape& shape) {
  StridedView out{.shape = shape};
  std::int64_t stride = 1;
  for (int i = shape.ndim(); i-- > 0;) {
    out.strides[static_cast<std::size_t>(i)] = stride;
    stride *= shape[i];
  }
  return out;
}

// Returns the shape of one of our tensors in a row: of one element if the row has {E}.
bool is_stacked(const registry::TensorRow& row) {
  return row.published.find("{E}") != std::string::npos;
}

Shape unit_shape(const decoder::Parameter& parameter, const registry::TensorRow& row) {
  if (!is_stacked(row)) return parameter.desc.shape;
  if (parameter.desc.shape.ndim() == 0) refuse_transforms(parameter, row);
  return parameter.desc.shape.without_leading();
}

std::size_t part_transform(const registry::TensorRow& row) {
  const auto at =
      std::ranges::find(row.transforms, TransformKind::part, &registry::Transform::kind);
  return static_cast<std::size_t>(at - row.transforms.begin());
}

// Names of fused tensors of matrices with a common input, as with MaxText's fused_qkv; the parts
// are rows.
struct Part {
  std::string_view module, fused;
  std::int64_t index;
};
constexpr Part kParts[] = {{"q_proj", "qkv_proj", 0},
                           {"k_proj", "qkv_proj", 1},
                           {"v_proj", "qkv_proj", 2},
                           {"gate_proj", "gate_up_proj", 0},
                           {"up_proj", "gate_up_proj", 1}};

// Returns the row that makes the tensor of `row` a part of a fused one; nothing if there is none.
std::optional<registry::TensorRow> fused_row(const registry::TensorRow& row) {
  const std::size_t leaf = row.published.rfind('.');
  if (leaf == std::string::npos) return {};
  const std::size_t begin = row.published.rfind('.', leaf - 1) + 1;
  const std::string_view module = std::string_view(row.published).substr(begin, leaf - begin);
  const auto part = std::ranges::find(kParts, module, &Part::module);
  if (part == std::end(kParts) || part_transform(row) < row.transforms.size()) return {};
  registry::TensorRow out = row;
  out.published = fmt::format("{}{}{}", row.published.substr(0, begin), part->fused,
                              row.published.substr(leaf));
  const bool is_transposed =
      std::ranges::count(row.transforms, TransformKind::transpose, &registry::Transform::kind) % 2;
  out.transforms.insert(out.transforms.begin(),
                        {TransformKind::part, 0, is_transposed ? 1 : 0, part->index, 0});
  return out;
}

}  // namespace

MapBuilder::MapBuilder(const decoder::Model& model) : model_(model) {
  std::map<std::pair<std::uint32_t, std::string_view>, std::vector<const registry::TensorRow*>> all;
  for (const registry::TensorRow& row : model.family().tensor_rows())
    if (!row.ignore) all[{row.block, row.param}].push_back(&row);
  const auto& parameters = model.parameters().all();
  // The SDK has rows for the block of multi-token prediction even if the family has no map.
  const bool has_map = std::ranges::any_of(parameters, [&](const decoder::Parameter& p) {
    return p.layer < model.config().num_layers() && all.contains({p.block, p.desc.name});
  });
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const decoder::Parameter& p = parameters[i];
    const auto found = all.find({p.block, p.desc.name});
    if (const std::string of = decoder::adapted_name(p.desc.name); !of.empty() && model.adapter()) {
      const auto base = all.find({p.block, of});
      rows_.push_back({&adapter_row(p, base == all.end() ? nullptr : base->second.front())});
    } else if (!has_map)
      rows_.push_back({&own_row(p)});
    else if (found == all.end() && !p.desc.beside.empty()) {
      const auto beside = all.find({p.block, p.desc.beside});
      rows_.push_back(beside == all.end() ? std::vector<const registry::TensorRow*>{}
                                          : std::vector{&beside_row(p, *beside->second.front())});
    } else if (p.block == 0 &&
               (p.layer >= 0 || (found == all.end() && p.desc.name == LAMINA_NAME_POSITIONS)))
      rows_.push_back({&host_row(p)});
    else
      rows_.push_back(found == all.end() ? std::vector<const registry::TensorRow*>{}
                                         : found->second);
    // Files of a tied head may have the table under the head's name alone.
    if (p.desc.name == LAMINA_NAME_EMBED && model.options().head.tied)
      for (const registry::TensorRow* row : all[{0, LAMINA_NAME_HEAD}])
        if (row->tied) rows_.back().push_back(row);
    // A name without an index belongs to the only prediction layer.
    if (p.layer >= model.config().num_layers() && model.mtp_depth() > 1)
      std::erase_if(rows_.back(), [](const registry::TensorRow* row) {
        return row->published.find("{L}") == std::string::npos &&
               row->published.find("{P}") == std::string::npos;
      });
    of_layer_[p.layer].push_back(static_cast<int>(i));
  }
  add_fused_rows();
}

void MapBuilder::add_fused_rows() {
  const auto& parameters = model_.parameters().all();
  fused_.assign(parameters.size(), nullptr);
  // Parts of one tensor, by layer and published folder.
  std::map<std::tuple<std::int64_t, std::uint32_t, std::string>, std::vector<std::size_t>> parts;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const decoder::Parameter& p = parameters[i];
    if (p.block == 0 || rows_[i].empty() || !decoder::adapted_name(p.desc.name).empty()) continue;
    std::optional<registry::TensorRow> row = fused_row(*rows_[i].front());
    if (!row) continue;
    parts[{p.layer, p.block, row->published}].push_back(i);
    fused_[i] = &host_rows_.emplace_back(*std::move(row));
  }
  for (const auto& [place, members] : parts)
    for (std::size_t i : members)
      if (members.size() > 1)
        rows_[i].push_back(fused_[i]);
      else
        fused_[i] = nullptr;
}

// The host's parameters in a layer are published under our names, beside the family's;
// learned positions have a name beside the layers.
const registry::TensorRow& MapBuilder::host_row(const decoder::Parameter& parameter) {
  std::string folder = "layers.{L}.";
  for (const registry::TensorRow& row : model_.family().tensor_rows())
    if (const std::size_t at = row.published.find("{L}."); !row.ignore && at != std::string::npos) {
      folder = row.published.substr(0, at + 4);
      break;
    }
  std::string name = parameter.desc.name;
  if (parameter.layer < 0) {
    folder.resize(folder.rfind('.', folder.find("{L}") - 2) + 1);
    name = "embed_positions.weight";
  }
  return host_rows_.emplace_back(registry::TensorRow{
      .param = parameter.desc.name, .published = folder + name, .transforms = {}});
}

// A parameter that the host adds to a family's block is named after the parameter beside it:
// "q_norm" beside "q_proj", "up_proj_1" after "up_proj".
const registry::TensorRow& MapBuilder::beside_row(const decoder::Parameter& parameter,
                                                  const registry::TensorRow& beside) {
  const auto module = [](std::string_view name) { return name.substr(0, name.rfind('.')); };
  const auto folder = [](std::string_view name) { return name.substr(0, name.rfind('.') + 1); };
  const std::string_view own = parameter.desc.name, module_beside = module(parameter.desc.beside);
  const bool continues = own.starts_with(module_beside);
  std::string name(continues ? module(beside.published) : folder(module(beside.published)));
  name += own.substr(continues ? module_beside.size() : folder(module_beside).size());
  registry::TensorRow row{
      .block = parameter.block, .param = parameter.desc.name, .published = std::move(name)};
  for (const registry::Transform& t : beside.transforms)
    if (continues && t.kind != TransformKind::part) row.transforms.push_back(t);
  return host_rows_.emplace_back(std::move(row));
}

// PEFT's name: its prefix, then the module of the matrix. For a fused matrix it is the module of
// the fused one: its parts share `a` and have rows of `b` each.
const registry::TensorRow& MapBuilder::adapter_row(const decoder::Parameter& parameter,
                                                   const registry::TensorRow* of) {
  const std::string_view own = parameter.desc.name;
  const std::string matrix = decoder::adapted_name(own);
  const bool down = own.ends_with(decoder::kAdapterDown);
  const std::string_view part = down ? publishers::kAdapterDown
                                : own.ends_with(decoder::kAdapterUp)
                                    ? publishers::kAdapterUp
                                    : publishers::kAdapterMagnitude;
  registry::TensorRow row{.param = parameter.desc.name,
                          .published = of ? of->published : "layers.{L}." + matrix,
                          .transforms = {}};
  std::optional<std::vector<registry::Transform>> rows;
  if (of) rows = row_choice(*of);
  const decoder::AdapterTarget* target = model_.adapter()->find(parameter.block, matrix);
  if (rows && rows->empty() && target && !target->down_of.empty()) {
    const std::optional<registry::TensorRow> fused = fused_row(*of);
    LAMINA_ASSERT(fused.has_value());
    row.published = fused->published;
    rows = row_choice(*fused);
  }
  if (rows && !down) row.transforms = *std::move(rows);
  row.published =
      fmt::format("{}{}{}", publishers::kAdapterPrefix, decoder::module_name(row.published), part);
  return host_rows_.emplace_back(std::move(row));
}

// For a family without a map: our name.
const registry::TensorRow& MapBuilder::own_row(const decoder::Parameter& parameter) {
  std::string name = parameter.name;
  const std::string layer = fmt::format("layers.{}.", parameter.layer);
  if (name.starts_with(layer)) name.replace(0, layer.size(), "layers.{L}.");
  return host_rows_.emplace_back(registry::TensorRow{
      .param = parameter.desc.name, .published = std::move(name), .transforms = {}});
}

const std::vector<const registry::TensorRow*>& MapBuilder::rows_of(int parameter) const {
  return rows_[static_cast<std::size_t>(parameter)];
}

// Returns the total size of the parts before `row`, and of all parts.
std::pair<std::int64_t, std::int64_t> MapBuilder::extent_of_parts(
    int parameter, const registry::TensorRow& row) const {
  const decoder::Parameter& own = model_.parameters()[parameter];
  const std::int64_t index = row.transforms[part_transform(row)].index;
  std::int64_t before = 0, total = 0;
  // Rows of one parameter with the same tensor name are alternative forms, each with its parts.
  const auto alike = [&](int other) {
    std::vector<const registry::TensorRow*> out;
    for (const registry::TensorRow* r : rows_of(other))
      if (r->published == row.published) out.push_back(r);
    return out;
  };
  const std::vector<const registry::TensorRow*> forms = alike(parameter);
  const std::size_t form = static_cast<std::size_t>(std::ranges::find(forms, &row) - forms.begin());
  for (int other : of_layer_.at(own.layer)) {
    const decoder::Parameter& p = model_.parameters()[other];
    if (p.block != own.block) continue;
    const std::vector<const registry::TensorRow*> others = alike(other);
    for (std::size_t i = 0; i < others.size(); ++i) {
      const registry::TensorRow* r = others[i];
      const std::size_t at = part_transform(*r);
      if (at == r->transforms.size() || (others.size() == forms.size() && i != form)) continue;
      const Shape shape = stages_before(p, *r, at + 1, unit_shape(p, *r)).front();
      const std::int64_t dim = r->transforms[at].dim;
      if (dim < -shape.ndim() || dim >= shape.ndim()) refuse_transforms(p, *r);
      total += shape[static_cast<int>(dim)];
      if (r->transforms[at].index < index) before += shape[static_cast<int>(dim)];
    }
  }
  return {before, total};
}

ExpandedRow MapBuilder::expand(int parameter, const registry::TensorRow& row) const {
  const decoder::Parameter& p = model_.parameters()[parameter];
  // A tensor shared by all layers may have a name without a layer index.
  if (p.layer >= 0 && p.layer < model_.config().num_layers() &&
      row.published.find("{L}") == std::string::npos && !is_only_one(p))
    throw PluginError({fmt::format("tensor row '{}'", row.published),
                       fmt::format("is for parameter '{}' in a layer, but has no {{L}}", p.name),
                       {}});
  ExpandedRow out{.row = &row};
  std::vector<Shape> stages = stages_before(p, row, 0, unit_shape(p, row));
  const std::size_t part = part_transform(row);
  std::int64_t before = 0, total = 0;
  if (part < row.transforms.size()) {  // the common dim has the size of all parts together
    std::tie(before, total) = extent_of_parts(parameter, row);
    Shape all = stages[part + 1];
    all[static_cast<int>(row.transforms[part].dim)] = total;
    registry::TensorRow earlier = row;
    earlier.transforms.resize(part);
    const std::vector<Shape> first = stages_before(p, earlier, 0, all);
    std::ranges::copy(first, stages.begin());
  }
  StridedView view = whole(stages[0]);
  for (std::size_t i = 0; i < row.transforms.size(); ++i) {
    const registry::Transform& t = row.transforms[i];
    const int ndim = view.shape.ndim();
    const std::size_t dim = static_cast<std::size_t>(t.dim < 0 ? t.dim + ndim : t.dim);
    std::int64_t* strides = view.strides.data();
    switch (t.kind) {
      case TransformKind::transpose:
        std::swap(strides[ndim - 1], strides[ndim - 2]);
        break;
      case TransformKind::add:
        out.shift += t.number;
        break;
      case TransformKind::mul:
        out.factor *= t.number;
        out.shift *= t.number;
        break;
      case TransformKind::part:
        view.offset += before * strides[dim];
        break;
      case TransformKind::strided:
        view.offset += t.index * strides[dim];
        strides[dim] *= t.count;
        break;
      case TransformKind::squeeze:
        std::copy(strides + dim + 1, strides + ndim, strides + dim);
        break;
      case TransformKind::split:
        std::copy_backward(strides + dim, strides + ndim, strides + ndim + 1);
        strides[dim] *= stages[i + 1][static_cast<int>(dim) + 1];
        break;
      case TransformKind::merge:  // of adjacent dims in memory
        if (strides[dim] != strides[dim + 1] * t.count) refuse_transforms(p, row);
        std::copy(strides + dim + 1, strides + ndim, strides + dim);
        break;
      case TransformKind::move:
        if (dim < static_cast<std::size_t>(t.index))
          std::rotate(strides + dim, strides + dim + 1, strides + t.index + 1);
        else
          std::rotate(strides + t.index, strides + dim, strides + dim + 1);
        break;
    }
    view.shape = stages[i + 1];
  }
  const std::string name = replaced(replaced(row.published, "{L}", p.layer), "{P}",
                                    p.layer - model_.config().num_layers());
  const std::int64_t count = is_stacked(row) ? p.desc.shape[0] : 1;
  if (count > kMaxElements)
    throw PluginError({fmt::format("tensor row '{}'", row.published),
                       fmt::format("expands to {} tensors of parameter '{}', {}; the maximum is "
                                   "{}",
                                   count, p.name, to_string(p.desc.shape), kMaxElements),
                       {}});
  for (std::int64_t e = 0; e < count; ++e)
    out.tensors.push_back({replaced(name, "{E}", e), stages[0], view});
  return out;
}

bool MapBuilder::is_only_one(const decoder::Parameter& parameter) const {
  return std::ranges::count_if(model_.parameters().all(), [&](const decoder::Parameter& other) {
           return other.block == parameter.block && other.desc.name == parameter.desc.name;
         }) == 1;
}

int MapBuilder::tensor_index(const std::string& name, const Shape& shape) {
  if (map_.tensors_.size() == kMaxTensors)
    user_error(
        ExitCode::usage, "the model",
        "is published in more than {} tensors, the maximum: each expert of each layer is one "
        "or more; check the numbers of layers and experts in its description",
        kMaxTensors);
  const auto [at, fresh] = by_name_.emplace(name, static_cast<int>(map_.tensors_.size()));
  if (fresh) map_.tensors_.push_back({name, shape, {}});
  const Shape& known = map_.tensors_[static_cast<std::size_t>(at->second)].shape;
  if (known != shape)
    throw PluginError({fmt::format("published tensor '{}'", name),
                       fmt::format("is {} by one row of family '{}', but {} by another",
                                   to_string(known), model_.family().name(), to_string(shape)),
                       {}});
  return at->second;
}

void MapBuilder::add(int parameter, const ExpandedRow& row, const std::vector<std::string>& names) {
  map_.begins_.resize(static_cast<std::size_t>(parameter) + 1, map_.pieces_.size());
  std::int64_t first = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ExpandedRow::Tensor& t = row.tensors[i];
    const int tensor = tensor_index(names[i], t.shape);
    map_.tensors_[static_cast<std::size_t>(tensor)].pieces.push_back(
        static_cast<int>(map_.pieces_.size()));
    map_.pieces_.push_back({parameter, tensor, first, t.view, row.factor, row.shift});
    first += t.view.shape.num_elements();
  }
}

void MapBuilder::add_own(int parameter) {
  const decoder::Parameter& p = model_.parameters()[parameter];
  add(parameter, {.tensors = {{p.name, p.desc.shape, whole(p.desc.shape)}}}, {p.name});
}

// Throws if parameters use more elements of a tensor than it has.
void MapBuilder::check_shares() const {
  for (const PublishedTensor& tensor : map_.tensors_) {
    std::int64_t taken = 0;
    for (int index : tensor.pieces)
      taken += map_.pieces_[static_cast<std::size_t>(index)].view.shape.num_elements();
    if (taken <= tensor.shape.num_elements()) continue;
    const auto name_of = [&](int index) {
      return model_.parameters()[map_.pieces_[static_cast<std::size_t>(index)].parameter].name;
    };
    throw PluginError(
        {fmt::format("published tensor '{}'", tensor.name),
         fmt::format("is mapped to parameter '{}' and again to '{}' by rows of family '{}'",
                     name_of(tensor.pieces[0]), name_of(tensor.pieces[1]), model_.family().name()),
         {"each element of a tensor must belong to one parameter (M-9 of "
          "docs/plugin_requirements.md)"}});
  }
}

TensorMap MapBuilder::finish(bool own_names) {
  check_shares();
  map_.begins_.resize(rows_.size() + 1, map_.pieces_.size());
  map_.own_names_ = own_names;
  return std::move(map_);
}

}  // namespace lamina::weights
