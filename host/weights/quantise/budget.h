// Chooses which matrices get more bits: --target-bits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/workers.h"
#include "weights/quantise/quantise.h"

namespace lamina::weights {

// The format of matrices that get more bits.
inline constexpr std::string_view kBudgetFormat = "int8";

// Returns the sum of importance * (value - rounded)^2 over all rows of a matrix, relative to the
// sum of importance * value^2; 0 for zeros. `importance`: one per column, eg the mean square of its
// input; empty: all equal. Does not depend on the number of threads.
double rounding_error(const RowsToEncode& matrix, const std::string& where, const RowSource& values,
                      std::span<const float> importance, const Workers& workers);

// The relative errors of a parameter, for experts their mean, in its format and in kBudgetFormat.
struct FormatErrors {
  double base = 0, better = 0;
};

// UserError (exit 2) at `option`: the stored parameters have more than `target_bits` bits per value
// together.
void check_budget(const decoder::Model& model,
                  std::span<const formats::BlockFormat* const> storages, double target_bits,
                  const std::string& option);

// Returns `storages` with kBudgetFormat for some parameters, so that all stored parameters together
// have at most `target_bits` bits per value. Scopes of a layer ("layers.3.attention") change
// together, because other programs fuse their matrices; those with the largest decrease of errors
// per byte come first. `errors`: one per parameter; none for parameters that keep their format.
// REQUIRES: check_budget() does not throw.
std::vector<const formats::BlockFormat*> spend_bits(
    const decoder::Model& model, std::vector<const formats::BlockFormat*> storages,
    std::span<const std::optional<FormatErrors>> errors, double target_bits);

// Returns the fewest bits per value, in thousandths, with which spend_bits() changes a scope; 0 if
// no change lowers an error.
double bits_for_a_change(const decoder::Model& model,
                         std::span<const formats::BlockFormat* const> storages,
                         std::span<const std::optional<FormatErrors>> errors);

// Returns the bits per value of all stored parameters.
double bits_per_value(const decoder::Model& model,
                      std::span<const formats::BlockFormat* const> storages);

}  // namespace lamina::weights
