#include "core/system_error.h"

#include <system_error>

namespace lamina {

std::string system_error_text(int error_number) {
  std::string text = std::generic_category().message(error_number);
  if (text.size() > 1 && text[0] >= 'A' && text[0] <= 'Z' && !(text[1] >= 'A' && text[1] <= 'Z'))
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

}  // namespace lamina
