// Splits strings like str.split() and str.rsplit(): at most `cuts` times, without limit if
// negative.
#pragma once

#include <cstdint>
#include <vector>

#include "jinja/values/text.h"

namespace lamina::jinja {

// Splits at white space; the last part keeps its inner white space and the text after it (before
// it, from the right).
Vector<TextView> split_words(TextView text, std::int64_t cuts);
Vector<TextView> split_words_right(TextView text, std::int64_t cuts);

// Splits at each separator, which must not be empty.
Vector<TextView> split_at(TextView text, TextView separator, std::int64_t cuts);
Vector<TextView> split_at_right(TextView text, TextView separator, std::int64_t cuts);

}  // namespace lamina::jinja
