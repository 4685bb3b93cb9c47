#include "weights/publish/peft.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "io/weight_files.h"
#include "publishers/formats.h"
#include "weights/match/tensor_map.h"
#include "weights/publish/peft_names.h"
#include "weights/publish/published.h"

namespace lamina::weights {
namespace {

// The parameters of the adapter of a matrix; -1 if it has none.
struct Parts {
  int down, up, magnitude;
};
Parts parts_of(const decoder::Model& model, int parameter) {
  const decoder::Parameter& p = model.parameters()[parameter];
  const std::string& own = p.desc.name;
  const decoder::AdapterTarget* target = model.adapter()->find(p.block, own);
  if (!target) return {-1, -1, -1};
  const std::string scope = p.name.substr(0, p.name.size() - own.size());
  const auto find = [&](const std::string& of, std::string_view part) {
    return model.parameters().find(scope + decoder::adapter_name(of, part));
  };
  return {find(target->down_of.empty() ? own : target->down_of, decoder::kAdapterDown),
          find(own, decoder::kAdapterUp), find(own, decoder::kAdapterMagnitude)};
}

}  // namespace

std::vector<io::FileDigest> write_adapter(const decoder::Model& model, const PublishedForm* form,
                                          const std::string& directory,
                                          const ParameterValues& values) {
  const AdapterNames names(model, form);
  const TensorMap map = published_tensors(model);
  std::vector<io::TensorSpec> specs;
  std::map<std::string, int, std::less<>> tensors;
  for (std::size_t i = 0; i < map.tensors().size(); ++i) {
    const PublishedTensor& tensor = map.tensors()[i];
    if (!tensor.name.starts_with(publishers::kAdapterPrefix)) continue;
    specs.push_back({names.published(tensor.name), DType::f32, tensor.shape});
    tensors.emplace(specs.back().name, static_cast<int>(i));
  }
  std::vector<float> whole;
  const auto bytes = [&](const io::TensorSpec& spec) {
    whole = assemble(map, tensors.at(spec.name),
                     [&](int parameter, std::int64_t first, std::int64_t count) {
                       return values(parameter).subspan(static_cast<std::size_t>(first),
                                                        static_cast<std::size_t>(count));
                     });
    return std::as_bytes(std::span<const float>(whole));
  };
  return io::write_weight_files(directory, specs, bytes,
                                {.stem = std::string(publishers::kAdapterStem)});
}

bool has_adapter(const decoder::Model& model, int parameter) {
  return model.adapter() && parts_of(model, parameter).up >= 0;
}

void merge_adapter(const decoder::Model& model, int parameter, const ParameterValues& values,
                   std::span<float> weight) {
  const Parts parts = parts_of(model, parameter);
  const Shape& shape = model.parameters()[parameter].desc.shape;
  const std::int64_t rank = model.adapter()->rank, rows = shape[-2], columns = shape[-1];
  const std::int64_t experts = shape.ndim() == 3 ? shape[0] : 1;
  const std::span<const float> down = values(parts.down), up = values(parts.up);
  const std::span<const float> lengths =
      parts.magnitude < 0 ? std::span<const float>{} : values(parts.magnitude);
  std::vector<double> row(static_cast<std::size_t>(columns));
  for (std::int64_t o = 0; o < experts * rows; ++o) {
    std::ranges::fill(row, 0.0);
    for (std::int64_t r = 0; r < rank; ++r) {
      const double by = static_cast<double>(up[static_cast<std::size_t>(o * rank + r)]);
      const std::int64_t from = (o / rows * rank + r) * columns;
      for (std::int64_t i = 0; i < columns; ++i)
        row[static_cast<std::size_t>(i)] +=
            by * static_cast<double>(down[static_cast<std::size_t>(from + i)]);
    }
    const std::span<float> out = weight.subspan(static_cast<std::size_t>(o * columns), row.size());
    double squared = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<double>(out[i]) + model.adapter()->scale * row[i];
      squared += row[i] * row[i];
    }
    const double by =
        lengths.empty() || squared == 0
            ? 1  // also of a row of zeros, as in training
            : static_cast<double>(lengths[static_cast<std::size_t>(o)]) / std::sqrt(squared);
    for (std::size_t i = 0; i < row.size(); ++i) out[i] = static_cast<float>(by * row[i]);
  }
}

void start_magnitudes(const decoder::Model& model, int parameter, const ParameterValues& values,
                      std::span<float> out) {
  const std::string of = decoder::adapted_name(model.parameters()[parameter].name);
  const std::span<const float> weight = values(model.parameters().find(of));
  const std::size_t columns = weight.size() / out.size();
  for (std::size_t o = 0; o < out.size(); ++o) {
    double squared = 0;
    for (const float w : weight.subspan(o * columns, columns))
      squared += static_cast<double>(w) * static_cast<double>(w);
    out[o] = static_cast<float>(std::sqrt(squared));
  }
}

}  // namespace lamina::weights
