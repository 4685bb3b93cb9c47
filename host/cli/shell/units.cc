// Formats numbers for people.
#include "cli/shell/units.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace lamina::cli {
namespace {

// Three significant digits with the largest factor that keeps the number at 1 or more.
std::string scaled(double value, double step, std::string_view separator,
                   std::initializer_list<std::string_view> units) {
  auto unit = units.begin();
  // 999.5 would round to 1000 of the smaller unit.
  while (std::abs(value) >= step - 0.5 && unit + 1 != units.end()) value /= step, ++unit;
  int digits = unit == units.begin() || std::abs(value) >= 99.95 ? 0
               : std::abs(value) >= 9.995                        ? 1
                                                                 : 2;
  return fmt::format("{:.{}f}{}{}", value, digits, unit->empty() ? "" : separator, *unit);
}

// Three significant digits, and more from 1,000 on. REQUIRES: 0 or more.
std::string three_digits(double value) {
  if (value >= 99.95) return thousands_text(std::llround(value));
  return fmt::format("{:.{}f}", value, value >= 9.995 ? 1 : 2);
}

}  // namespace

std::string count_text(double count) { return scaled(count, 1000, "", {"", "k", "M", "B", "T"}); }

std::string bytes_text(double bytes) {
  return scaled(bytes, 1024, " ", {"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string thousands_text(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string number_of(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", thousands_text(count), noun, count == 1 ? "" : "s");
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 9.995) return fmt::format("{:.2f}s", seconds);
  auto whole = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e15)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

std::string milliseconds_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "? ms";
  return seconds < 0.9995e-3 ? three_digits(1e6 * seconds) + " us"
                             : three_digits(1e3 * std::min(seconds, 1e12)) + " ms";
}

std::string token_rate_text(double per_second) {
  if (!std::isfinite(per_second) || per_second < 0) return "? tok/s";
  return (per_second < 999.5 ? three_digits(per_second) : count_text(per_second)) + " tok/s";
}

std::string percents_text(std::span<const double> shares) {
  std::string out;
  for (double share : shares) out += fmt::format("{}{:.1f}%", out.empty() ? "" : ", ", 100 * share);
  return out;
}

}  // namespace lamina::cli
