#include "decoder/tensor_map.h"

#include <algorithm>
#include <unordered_set>

#include "core/error.h"
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

}  // namespace lamina::decoder
