// "%s of %d" % values: Python's printf formats.
#include <algorithm>
#include <cmath>

#include "jinja/interpreter.h"
#include "jinja/library/library.h"

namespace lamina::jinja {
namespace {

class Formatter {
 public:
  Formatter(const Text& format, const TemplateValue& values) : format_(format), values_(values) {
    if (values.is(Kind::tuple))
      rest_ = values.as<ListObject>().items;
    else
      rest_ = {values};
  }

  Text run() {
    Budget::step(format_.size() / 16 + rest_.size() / 8);
    Text out;
    while (at_ < format_.size()) {
      if (code_of(format_[at_]) != '%')
        out += format_[at_++];
      else
        out += directive();
    }
    // Values that could be a mapping may remain unused.
    const bool must_be_used = !values_.is(Kind::dict) && !values_.is(Kind::list) &&
                              !values_.is(Kind::range) && !values_.is(Kind::undefined);
    if (must_be_used && !named_ && next_ < rest_.size())
      fail("not all arguments converted during string formatting");
    return out;
  }

 private:
  Char peek() const {
    if (at_ >= format_.size()) fail("incomplete format");
    return code_of(format_[at_]);
  }

  const TemplateValue& take() {
    if (next_ >= rest_.size()) fail("not enough arguments for format string");
    return rest_[next_++];
  }

  std::optional<std::int64_t> number() {
    if (peek() == '*') {
      ++at_;
      const std::int64_t width = to_index(take());
      if (width > kMaxFormatWidth || width < -kMaxFormatWidth)
        fail("a format asks for more than {} characters", kMaxFormatWidth);
      return width;
    }
    std::optional<std::int64_t> out;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      out = out.value_or(0) * 10 + (peek() - '0');
      if (*out > kMaxFormatWidth)
        fail("a format asks for more than {} characters", kMaxFormatWidth);
    }
    return out;
  }

  Text directive() {
    ++at_;
    const TemplateValue* value = nullptr;
    if (peek() == '(') {
      const std::size_t end = format_.find(U')', at_);
      if (end == Text::npos) fail("incomplete format key");
      if (!values_.is(Kind::dict)) fail("format requires a mapping");
      const TemplateValue key = TemplateValue::string(format_.substr(at_ + 1, end - at_ - 1));
      value = values_.as<Dict>().find(key);
      if (!value) fail("the format names {}, which is not given", to_utf8(repr(key)));
      named_ = true;
      at_ = end + 1;
    }
    bool left = false, zeros = false, alternate = false;
    Text sign;
    for (;; ++at_) {
      if (peek() == '-')
        left = true;
      else if (peek() == '0')
        zeros = true;
      else if (peek() == '+')
        sign = U"+";
      else if (peek() == ' ')
        sign = sign.empty() ? U" " : sign;
      else if (peek() == '#')
        alternate = true;
      else
        break;
    }
    std::int64_t width = number().value_or(0);
    if (width < 0) {
      left = true;
      width = -width;
    }
    std::optional<std::int64_t> precision;
    if (peek() == '.') {
      ++at_;
      precision = std::max<std::int64_t>(number().value_or(0), 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    const Char type = peek();
    ++at_;
    if (type == '%') return format_.substr(at_ - 1, 1);
    if (!value) value = &take();
    if (type == 's' || type == 'r' || type == 'a') {
      Text text = type == 's' ? str(*value) : type == 'r' ? repr(*value) : ascii(*value);
      if (precision) text = text.substr(0, static_cast<std::size_t>(*precision));
      return pad(text, width, left ? -1 : 1, ' ');
    }
    if (type == 'c') return pad(character(*value), width, left ? -1 : 1, ' ');
    if (alternate) sign += U'#';
    return formatted_number(*value, type, sign, width, precision, left, zeros);
  }

  static Text character(const TemplateValue& value) {
    if (value.is_whole() && value.whole() >= 0 && value.whole() <= 0x10ffff)
      return Text(1, character_of(static_cast<Char>(value.whole())));
    if (value.is(Kind::string) && value.text().size() == 1) return value.text();
    fail("%c requires int or char");
  }

  static Text formatted_number(const TemplateValue& value, Char type, const Text& sign,
                               std::int64_t width, std::optional<std::int64_t> precision, bool left,
                               bool zeros) {
    constexpr std::u32string_view kKnown = U"diuxXoeEfFgG";
    if (kKnown.find(type) == kKnown.npos)
      fail("unsupported format character '{}'", to_utf8(TextView(&type, 1)));
    if (!value.is_number())
      fail("%{} format: a real number is required, not {}", static_cast<char>(type),
           type_name(value));
    const bool whole =
        type == 'd' || type == 'i' || type == 'u' || type == 'x' || type == 'X' || type == 'o';
    TemplateValue number = value;
    Text spec = sign;
    if (whole && value.is(Kind::real)) {
      if (type == 'x' || type == 'X' || type == 'o')
        fail("%{} format: an integer is required, not float", static_cast<char>(type));
      if (!std::isfinite(value.real()) || std::fabs(value.real()) > 1e30)
        fail("%d format: the number is too large");
      number = TemplateValue::integer(static_cast<Integer>(value.real()));
    }
    if (!whole) spec += to_text(fmt::format(".{}", precision.value_or(6)));
    Text text = format_spec(
        number,
        spec + Text(1, whole && type != 'x' && type != 'X' && type != 'o' ? Char{'d'} : type));
    const bool has_sign = !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
    const bool has_prefix = sign.ends_with(U'#') && (type == 'x' || type == 'X' || type == 'o');
    const std::size_t begin = (has_sign ? 1 : 0) + (has_prefix ? 2 : 0);  // of the digits
    const Text head = text.substr(0, begin);
    Text digits = text.substr(begin);
    if (whole && precision) digits = pad(digits, *precision, 1, '0');
    if (zeros && !left)
      return head + pad(digits, width - static_cast<std::int64_t>(head.size()), 1, '0');
    return pad(head + digits, width, left ? -1 : 1, ' ');
  }

  const Text& format_;
  const TemplateValue& values_;
  Vector<TemplateValue> rest_;
  std::size_t at_ = 0, next_ = 0;
  bool named_ = false;
};

}  // namespace

Text format_percent(const Text& format, const TemplateValue& values) {
  return Formatter(format, values).run();
}

}  // namespace lamina::jinja
