#include <array>

#include "jinja/interpreter.h"

namespace lamina::jinja {

std::string format_time(const std::tm& time, std::string_view format) {
  // Directives of C that depend on the time and not on the locale.
  constexpr std::string_view kKnown = "aAwdbBmyYHIpMSjUWcxXGuVDeFhnRrTCgt";
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    char directive = format[++i];
    const bool unpadded = directive == '-' && i + 1 < format.size();  // "%-d", as in glibc
    if (unpadded) directive = format[++i];
    if (directive == '%') {
      out += '%';
    } else if (directive == 'f') {
      out += "000000";
    } else if (directive == 'z' || directive == 'Z') {
      continue;  // a time without a zone
    } else if (kKnown.find(directive) != kKnown.npos) {
      const std::string one =
          unpadded ? std::string("%-") + directive : std::string("%") + directive;
      std::array<char, 128> buffer;
      out.append(buffer.data(), std::strftime(buffer.data(), buffer.size(), one.c_str(), &time));
    } else {
      (out += '%') += directive;
    }
  }
  return out;
}

}  // namespace lamina::jinja
