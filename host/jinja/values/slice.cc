// value[begin:end:step], with Python's rules for bounds.
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/library/library.h"

namespace lamina::jinja {

namespace {

// Clamps a number to the range of positions; no template is near the limits.
std::int64_t near_index(Integer number) {
  constexpr Integer kFar = Integer{1} << 62;
  return static_cast<std::int64_t>(std::clamp(number, -kFar, kFar));
}

}  // namespace

std::int64_t to_index(const TemplateValue& value) {
  if (value.is(Kind::undefined)) throw TemplateFailure(value.why_undefined());
  if (!value.is_whole()) fail("'{}' object cannot be interpreted as an integer", type_name(value));
  return near_index(value.whole());
}

TemplateValue slice(const TemplateValue& value, const TemplateValue& begin,
                    const TemplateValue& end, const TemplateValue& step_of) {
  if (value.is(Kind::undefined)) throw TemplateFailure(value.why_undefined());
  if (!value.is(Kind::string) && !value.is(Kind::list) && !value.is(Kind::tuple) &&
      !value.is(Kind::range) && !value.is(Kind::bytes))
    fail("'{}' object cannot be sliced", type_name(value));
  const auto bound = [](const TemplateValue& v) -> std::optional<std::int64_t> {
    if (v.is(Kind::none)) return {};
    if (!v.is_whole()) fail("slice indices must be integers or none");
    return to_index(v);
  };
  const std::int64_t step = bound(step_of).value_or(1);
  if (step == 0) fail("slice step cannot be zero");
  const auto size = static_cast<std::int64_t>(length(value));
  // The bound that Python's slice.indices() computes.
  const auto place = [&](const TemplateValue& v, std::int64_t absent) {
    std::optional<std::int64_t> at = bound(v);
    if (!at) return absent;
    if (*at < 0) *at += size;
    return step > 0 ? std::clamp<std::int64_t>(*at, 0, size)
                    : std::clamp<std::int64_t>(*at, -1, size - 1);
  };
  const std::int64_t first = place(begin, step > 0 ? 0 : size - 1);
  const std::int64_t last = place(end, step > 0 ? size : -1);
  Vector<std::size_t> picked;
  if (value.is(Kind::string) && step == 1)
    return TemplateValue::string(last > first
                                     ? value.text().substr(static_cast<std::size_t>(first),
                                                           static_cast<std::size_t>(last - first))
                                     : Text(),
                                 value.is_safe());
  for (std::int64_t at = first; step > 0 ? at < last : at > last; at += step) {
    picked.push_back(static_cast<std::size_t>(at));
    if (step > size || step < -size) break;  // at + step could overflow
  }
  Budget::step(picked.size());
  if (value.is(Kind::string)) {
    Text out;
    for (const std::size_t at : picked) out += value.text()[at];
    return TemplateValue::string(std::move(out), value.is_safe());
  }
  if (value.is(Kind::bytes)) {
    std::string out;
    for (const std::size_t at : picked) out += value.as<Bytes>().bytes[at];
    return TemplateValue::bytes(std::move(out), value.as<Bytes>().given);
  }
  if (value.is(Kind::range)) {
    const auto& range = value.as<Range>();
    const auto at = [&](std::int64_t n) {
      return near_index(range.start + Integer{n} * range.step);
    };
    return TemplateValue::object(
        Kind::range,
        std::make_shared<Range>(at(first), at(last), near_index(Integer{range.step} * step),
                                static_cast<std::int64_t>(picked.size())));
  }
  Vector<TemplateValue> out;
  for (const std::size_t at : picked) out.push_back(value.as<ListObject>().items[at]);
  return value.is(Kind::list) ? TemplateValue::list(std::move(out))
                              : TemplateValue::tuple(std::move(out));
}

}  // namespace lamina::jinja
