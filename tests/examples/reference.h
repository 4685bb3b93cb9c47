// Helpers for the references of example plugins: a checkpoint of random tensors under their
// published names, and the arithmetic of plain loops over a paper's equations, in f64.
#pragma once

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "io/weight_files.h"
#include "support/models.h"
#include "support/temp_dir.h"

namespace lamina::testing {

using Vector = std::vector<double>;

// Tensors by their published names.
class Checkpoint {
 public:
  void add(const std::string& name, Shape shape, double low, double high) {
    std::uniform_real_distribution<double> draw(low, high);
    std::vector<float> values(static_cast<std::size_t>(shape.num_elements()));
    for (float& value : values) value = static_cast<float>(draw(random_));
    tensors_[name] = {shape, std::move(values)};
  }
  Vector get(const std::string& name) const {
    const std::vector<float>& values = tensors_.at(name).second;
    return Vector(values.begin(), values.end());
  }
  // Row `row` of a table, or part of a vector: `width` numbers.
  Vector row(const std::string& name, std::int64_t row, std::int64_t width) const {
    const Vector all = get(name);
    return Vector(all.begin() + row * width, all.begin() + (row + 1) * width);
  }
  // Multiplies the matrix `name`.weight by x and adds `name`.bias if there is one.
  Vector product(const std::string& name, const Vector& x) const {
    const Vector w = get(name + ".weight");
    Vector out =
        tensors_.contains(name + ".bias") ? get(name + ".bias") : Vector(w.size() / x.size());
    for (std::size_t o = 0; o < out.size(); ++o)
      for (std::size_t i = 0; i < x.size(); ++i) out[o] += w[o * x.size() + i] * x[i];
    return out;
  }
  void write(const std::filesystem::path& folder, const std::string& config) const {
    std::ofstream(folder / "config.json") << config;
    std::vector<io::TensorSpec> specs;
    for (const auto& [name, tensor] : tensors_) specs.push_back({name, DType::f32, tensor.first});
    io::write_weight_files(folder.string(), specs, [&](const io::TensorSpec& spec) {
      return std::as_bytes(std::span(tensors_.at(spec.name).second));
    });
  }

 private:
  std::map<std::string, std::pair<Shape, std::vector<float>>> tensors_;
  std::mt19937 random_{11};
};

// f(element, its index) for each element.
template <typename F>
Vector map(Vector x, F f) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = f(x[i], i);
  return x;
}
inline Vector part(const Vector& x, std::size_t begin, std::size_t size) {
  const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin);
  return Vector(first, first + static_cast<std::ptrdiff_t>(size));
}
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double softplus(double x) { return std::log1p(std::exp(x)); }
// x / sqrt(mean(x^2) + eps) * (w + offset).
inline Vector rms_norm(const Vector& x, const Vector& w, double eps, double offset = 0) {
  double squares = 0;
  for (double v : x) squares += v * v / double(x.size());
  return map(
      x, [&](double v, std::size_t i) { return v / std::sqrt(squares + eps) * (w[i] + offset); });
}

// Returns the largest difference between the plugin's logits for one random row and those that
// `logits` returns for its token ids, relative to the largest logit.
template <typename Logits>
double error_of(const Checkpoint& checkpoint, const std::string& config, Logits logits) {
  const TempDir folder;
  checkpoint.write(folder.path(), config);
  const decoder::Model model = open_model(folder.path());
  const weights::Weights weights = load_weights({"published", folder.path()}, model);
  const Rows rows = random_rows(model, 1, 40);
  const Vector expected = logits(std::span<const std::int32_t>(rows.ids));
  const std::vector<float> want(expected.begin(), expected.end());
  return relative_difference(forward(model, weights.pointers(), rows), want);
}

}  // namespace lamina::testing
