// The letters and digits of ASCII, whatever the locale is.
#pragma once

namespace lamina::registry {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace lamina::registry
