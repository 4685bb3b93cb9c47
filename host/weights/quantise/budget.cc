#include "weights/quantise/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/round_up.h"
#include "formats/encode.h"

namespace lamina::weights {
namespace {

using Storage = const formats::BlockFormat*;

struct Sums {
  double error = 0, values = 0;
};

Sums sums_of_row(const formats::BlockFormat& format, std::span<const float> row,
                 std::span<const std::byte> blocks, std::span<const float> importance) {
  Sums out;
  std::vector<float> widened(static_cast<std::size_t>(format.num_values));
  for (std::size_t first = 0; first < row.size(); first += widened.size()) {
    format.widen(blocks.data() + format.bytes_of(static_cast<std::int64_t>(first)), widened.data());
    for (std::size_t i = 0; i < widened.size(); ++i) {
      const double value = row[first + i], error = value - static_cast<double>(widened[i]);
      const double weight = importance.empty() ? 1.0 : static_cast<double>(importance[first + i]);
      out.error += weight * error * error;
      out.values += weight * value * value;
    }
  }
  return out;
}

// "layers.3.attention" of "layers.3.attention.wq.weight".
std::string scope_of(const std::string& parameter) {
  const std::size_t last = parameter.rfind('.');
  const std::size_t before = last == parameter.npos ? last : parameter.rfind('.', last - 1);
  return before == parameter.npos ? parameter : parameter.substr(0, before);
}

struct Scope {
  std::vector<std::size_t> parameters;
  double gain = 0;
  std::int64_t bytes = 0;  // more than now

  double gain_per_byte() const { return gain / static_cast<double>(bytes); }
};

struct Size {
  std::int64_t values = 0, bytes = 0;
};

Size size_of(const decoder::Model& model, std::span<const Storage> storages) {
  Size out;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (!storages[i]) continue;
    const std::int64_t values = model.parameters().all()[i].num_elements();
    out.values += values;
    out.bytes += storages[i]->bytes_of(values);
  }
  return out;
}

// Returns the bytes that the matrices may grow; negative if they need more than `target_bits`.
std::int64_t rest_of_budget(const Size& size, double target_bits) {
  return static_cast<std::int64_t>(target_bits / 8 * static_cast<double>(size.values)) - size.bytes;
}

// Returns a number of bits per value, in thousandths, that is enough for that size.
double enough_bits(const Size& size) {
  std::int64_t thousandths = divide_up(8000 * size.bytes, size.values);
  while (rest_of_budget(size, static_cast<double>(thousandths) / 1000) < 0) ++thousandths;
  return static_cast<double>(thousandths) / 1000;
}

std::vector<Scope> scopes_of(const decoder::Model& model, std::span<const Storage> storages,
                             std::span<const std::optional<FormatErrors>> errors) {
  std::map<std::string, Scope> by_name;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (!errors[i]) continue;
    const decoder::Parameter& p = model.parameters().all()[i];
    const Storage better = formats::format_for(kBudgetFormat, p.desc.shape[-1]);
    Scope& scope = by_name[scope_of(p.name)];
    scope.parameters.push_back(i);
    scope.gain += errors[i]->base - errors[i]->better;
    scope.bytes += better->bytes_of(p.num_elements()) - storages[i]->bytes_of(p.num_elements());
  }
  std::vector<Scope> out;
  for (auto& [name, scope] : by_name)
    if (scope.bytes > 0 && scope.gain > 0) out.push_back(std::move(scope));
  std::ranges::stable_sort(out, std::greater<>(), &Scope::gain_per_byte);
  return out;
}

}  // namespace

double rounding_error(const RowsToEncode& matrix, const std::string& where, const RowSource& values,
                      std::span<const float> importance, const Workers& workers) {
  constexpr std::int64_t kRows = 16;  // of a part
  std::vector<Sums> parts(static_cast<std::size_t>(divide_up(matrix.rows, kRows)));
  work_on_all(workers, std::ssize(parts), [&](std::int64_t part) {
    const std::int64_t begin = part * kRows, count = std::min(kRows, matrix.rows - begin);
    const auto width = static_cast<std::size_t>(matrix.width);
    std::vector<float> rows(static_cast<std::size_t>(count) * width);
    std::vector<std::byte> blocks(static_cast<std::size_t>(matrix.format->bytes_of(matrix.width)));
    values(begin * matrix.width, rows);
    for (std::int64_t row = 0; row < count; ++row) {
      const auto of = std::span(rows).subspan(static_cast<std::size_t>(row) * width, width);
      if (!formats::encode_row(*matrix.format, of, blocks.data()))
        refuse_row(matrix, where, begin + row);
      const Sums sums = sums_of_row(*matrix.format, of, blocks, importance);
      parts[static_cast<std::size_t>(part)].error += sums.error;
      parts[static_cast<std::size_t>(part)].values += sums.values;
    }
  });
  Sums total;
  for (const Sums& part : parts) {
    total.error += part.error;
    total.values += part.values;
  }
  return total.values > 0 ? total.error / total.values : 0;
}

double bits_per_value(const decoder::Model& model, std::span<const Storage> storages) {
  const Size size = size_of(model, storages);
  return size.values == 0 ? 0
                          : 8 * static_cast<double>(size.bytes) / static_cast<double>(size.values);
}

void check_budget(const decoder::Model& model, std::span<const Storage> storages,
                  double target_bits, const std::string& option) {
  const Size size = size_of(model, storages);
  if (rest_of_budget(size, target_bits) >= 0) return;
  throw UserError(
      ExitCode::usage,
      {option,
       fmt::format("got {} bits per value; the formats need {:.3f} without any matrix in {}",
                   target_bits, enough_bits(size), kBudgetFormat),
       {"give at least that, or a format with fewer bits: int4-g128 has 4.125"}});
}

double bits_for_a_change(const decoder::Model& model, std::span<const Storage> storages,
                         std::span<const std::optional<FormatErrors>> errors) {
  const std::vector<Scope> scopes = scopes_of(model, storages, errors);
  if (scopes.empty()) return 0;
  Size size = size_of(model, storages);
  size.bytes += std::ranges::min_element(scopes, {}, &Scope::bytes)->bytes;
  return enough_bits(size);
}

std::vector<Storage> spend_bits(const decoder::Model& model, std::vector<Storage> storages,
                                std::span<const std::optional<FormatErrors>> errors,
                                double target_bits) {
  std::int64_t rest = rest_of_budget(size_of(model, storages), target_bits);
  LAMINA_ASSERT(rest >= 0);
  for (const Scope& scope : scopes_of(model, storages, errors)) {
    if (scope.bytes > rest) continue;  // a smaller one may still fit
    rest -= scope.bytes;
    for (const std::size_t i : scope.parameters)
      storages[i] = formats::format_for(kBudgetFormat, model.parameters().all()[i].desc.shape[-1]);
  }
  return storages;
}

}  // namespace lamina::weights
