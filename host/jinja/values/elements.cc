// Visits values: the elements that a loop sees for each kind, and their number.
#include <algorithm>

#include "jinja/values/objects.h"
#include "jinja/values/value.h"

namespace lamina::jinja {

std::string_view type_name(const TemplateValue& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return value.is_safe() ? "Markup" : "str";
    case Kind::bytes:
      return "bytes";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view:
      return value.as<ListObject>().name;
    case Kind::generator:
      return "generator";
    case Kind::space:
      return "Namespace";
    case Kind::callable:
      return value.as<Callable>().macro ? "Macro" : "function";
    case Kind::loop:
      return "LoopContext";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
  }
  return "";
}

bool is_iterable(const TemplateValue& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::bytes:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::view:
    case Kind::generator:
    case Kind::loop:
      return true;
    default:
      return false;
  }
}

Vector<TemplateValue> elements(const TemplateValue& value) {
  Vector<TemplateValue> out;
  if (is_iterable(value) && !value.is(Kind::generator) && !value.is(Kind::loop))
    Budget::step(value.is(Kind::string) ? length(value) : length(value) / 8);
  switch (value.kind()) {
    case Kind::undefined:
      break;
    case Kind::string:
      for (const Char c : value.text()) out.push_back(TemplateValue::string(Text(1, c)));
      break;
    case Kind::bytes:
      for (const char c : value.as<Bytes>().bytes)
        out.push_back(TemplateValue::integer(static_cast<unsigned char>(c)));
      break;
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      return value.as<ListObject>().items;
    case Kind::generator:
      while (std::optional<TemplateValue> item = value.as<Generator>().next())
        out.push_back(*std::move(item));
      break;
    case Kind::dict:
      for (const auto& [key, item] : value.as<Dict>().entries()) out.push_back(key);
      break;
    case Kind::range: {
      const auto& range = value.as<Range>();
      out.reserve(static_cast<std::size_t>(range.size));
      for (std::int64_t i = 0; i < range.size; ++i)
        out.push_back(TemplateValue::integer(range.start + i * range.step));
      break;
    }
    default:
      fail("'{}' object is not iterable", type_name(value));
  }
  return out;
}

std::optional<TemplateValue> Generator::next() {
  // Generators that read each other through namespaces are deeper than their values.
  thread_local unsigned num_running = 0;
  if (runs_) fail("generator already executing");
  if (num_running >= kMaxNesting)
    fail("reads more than {} generators inside each other", kMaxNesting);
  struct Running {
    explicit Running(bool& flag) : flag_(flag) {
      flag_ = true;
      ++num_running;
    }
    ~Running() {
      flag_ = false;
      --num_running;
    }
    bool& flag_;
  } const running(runs_);
  return next_();
}

Elements::Elements(const TemplateValue& value) {
  const auto is_any_of = [&](auto... kinds) { return (value.is(kinds) || ...); };
  if (is_any_of(Kind::list, Kind::tuple, Kind::view, Kind::generator))
    of_ = value;
  else
    items_ = elements(value);
}

std::optional<TemplateValue> Elements::next() {
  if (of_.is(Kind::generator)) return of_.as<Generator>().next();
  const Vector<TemplateValue>& items =
      of_.is(Kind::undefined) ? items_ : of_.as<ListObject>().items;
  return at_ < items.size() ? std::optional(items[at_++]) : std::nullopt;
}

std::size_t length(const TemplateValue& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return value.text().size();
    case Kind::bytes:
      return value.as<Bytes>().bytes.size();
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      return value.as<ListObject>().items.size();
    case Kind::dict:
      return value.as<Dict>().entries().size();
    case Kind::range:
      return static_cast<std::size_t>(value.as<Range>().size);
    default:
      fail("object of type '{}' has no len()", type_name(value));
  }
}

}  // namespace lamina::jinja
