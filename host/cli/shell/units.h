// Formats numbers for people.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lamina::cli {

// "41.2k", "1.5M", "812": three digits at most, and a factor.
std::string count_text(double count);

// "1,234,567"
std::string thousands_text(std::int64_t count);

// "1 step", "1,234 steps"
std::string number_of(std::int64_t count, std::string_view noun);

// "0.42s", "59s", "3m07s", "1h12m", "2d03h"; "?" if it is negative or not finite.
std::string duration_text(double seconds);

// "8.52 us", "17.7 ms", "1,927 ms": three digits, and more from 1,000 ms on.
std::string milliseconds_text(double seconds);

// "7.41 tok/s", "466 tok/s", "2.20k tok/s"; "? tok/s" if it is not finite.
std::string token_rate_text(double per_second);

// "512 B", "1.5 GiB"
std::string bytes_text(double bytes);

// "41.2%, 30.0%" for 0.412 and 0.3.
std::string percents_text(std::span<const double> shares);

}  // namespace lamina::cli
