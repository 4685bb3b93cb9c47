// The results of a step or a validation: one line of metrics.jsonl, one event of TensorBoard.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/json_writer.h"

namespace lamina::train {

class MetricsRecord {
 public:
  struct Scalar {
    std::string name;  // "train/loss"
    std::variant<double, std::uint64_t> value;

    double number() const {
      return std::visit([](auto v) { return static_cast<double>(v); }, value);
    }
  };

  explicit MetricsRecord(std::int64_t step) : step_(step) {}

  MetricsRecord& add(std::string name, double value) { return append({std::move(name), value}); }
  MetricsRecord& add(std::string name, std::uint64_t count) {
    return append({std::move(name), count});
  }

  std::int64_t step() const { return step_; }
  const std::vector<Scalar>& scalars() const { return scalars_; }

  // Returns one object, `step` first.
  JsonWriter json() const {
    JsonWriter out;
    out.begin_object().key("step").value(step_);
    for (const Scalar& scalar : scalars_)
      std::visit([&](auto value) { out.key(scalar.name).value(value); }, scalar.value);
    out.end_object();
    return out;
  }

 private:
  MetricsRecord& append(Scalar scalar) {
    scalars_.push_back(std::move(scalar));
    return *this;
  }

  std::int64_t step_;
  std::vector<Scalar> scalars_;
};

}  // namespace lamina::train
