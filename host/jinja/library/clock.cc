#include "jinja/interpreter.h"

namespace lamina::jinja {

std::string format_time(const std::tm& time, std::string_view format) {
  if (format.find('\0') != format.npos) fail("embedded null character");
  // Python replaces %f, %z and %Z; the C library does the rest, with its flags and widths.
  std::string pattern;
  for (std::size_t i = 0; i < format.size(); ++i) {
    pattern += format[i];
    if (format[i] != '%' || i + 1 == format.size()) continue;
    const char directive = format[++i];
    if (directive == 'f' || directive == 'z' || directive == 'Z') {
      pattern.pop_back();
      if (directive == 'f') pattern += "000000";  // a time without a zone has no %z and %Z
    } else {
      pattern += directive;
    }
  }
  pattern += '.';  // the result is empty only if the buffer is too small
  std::tm without_zone = time;
  without_zone.tm_isdst = -1;
  without_zone.tm_zone = "";
  for (std::string out(1024, '\0'); out.size() <= kMaxFormatWidth; out.resize(2 * out.size()))
    if (const std::size_t size =
            std::strftime(out.data(), out.size(), pattern.c_str(), &without_zone)) {
      out.resize(size - 1);
      return out;
    }
  fail("a format asks for more than {} characters", kMaxFormatWidth);
}

}  // namespace lamina::jinja
