// Cutting strings as str.split() and str.rsplit() do: at most `cuts` times, all if negative.
#pragma once

#include <cstdint>
#include <vector>

#include "jinja/values/text.h"

namespace lamina::jinja {

// At white space; a part that is no longer cut keeps what is inside and behind it (before it, from
// the right).
Vector<TextView> split_words(TextView text, std::int64_t cuts);
Vector<TextView> split_words_right(TextView text, std::int64_t cuts);

// At each separator, which is not empty.
Vector<TextView> split_at(TextView text, TextView separator, std::int64_t cuts);
Vector<TextView> split_at_right(TextView text, TextView separator, std::int64_t cuts);

}  // namespace lamina::jinja
