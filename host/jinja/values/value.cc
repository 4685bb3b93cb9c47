#include "jinja/values/value.h"

#include <algorithm>
#include <cmath>

#include "jinja/values/objects.h"

namespace lamina::jinja {

namespace {
// An object with its reference counter, on the heap. The size of a list, the largest kind that
// templates make in large numbers.
constexpr std::size_t kObjectBytes = 128;
}  // namespace

Object::Object(std::size_t num_bytes, unsigned depth_of)
    : depth(depth_of), budget_(Budget::current()), num_bytes_(num_bytes + kObjectBytes) {
  if (depth_of > kMaxNesting) fail("puts more than {} values inside each other", kMaxNesting);
  if (budget_) budget_->take(num_bytes_);
}

Object::~Object() {
  if (budget_) budget_->give_back(num_bytes_);
}

String::String(Text t, bool is_safe) : Object(0, 0), text(std::move(t)), safe(is_safe) {
  if (text.size() > kMaxText) fail("a string has more than {} characters", kMaxText);
  Budget::step(text.size() / 128);
}

TemplateValue TemplateValue::boolean(bool flag) {
  TemplateValue value(Kind::boolean);
  value.number_.integer = flag;
  return value;
}

TemplateValue TemplateValue::integer(Integer number) {
  // The least integer has no negative.
  constexpr Integer kLeast = -(Integer{1} << 126) * 2;
  if (number == kLeast) too_large();
  TemplateValue value(Kind::integer);
  value.number_.integer = number;
  return value;
}

TemplateValue TemplateValue::real(double number) {
  TemplateValue value(Kind::real);
  value.number_.real = number;
  return value;
}

TemplateValue TemplateValue::string(Text text, bool safe) {
  return object(Kind::string, std::make_shared<String>(std::move(text), safe));
}

TemplateValue TemplateValue::bytes(std::string bytes, bool given) {
  return object(Kind::bytes, std::make_shared<Bytes>(std::move(bytes), given));
}

TemplateValue TemplateValue::list(Vector<TemplateValue> items) {
  return object(Kind::list, std::make_shared<ListObject>(std::move(items)));
}

TemplateValue TemplateValue::tuple(Vector<TemplateValue> items) {
  return object(Kind::tuple, std::make_shared<ListObject>(std::move(items)));
}

TemplateValue TemplateValue::generator(Vector<TemplateValue> items) {
  const TemplateValue all = list(std::move(items));
  return generator([of = Elements(all)]() mutable { return of.next(); }, all.depth());
}

TemplateValue TemplateValue::generator(Generator::Next next, unsigned depth_of_parts) {
  return object(Kind::generator, std::make_shared<Generator>(std::move(next), depth_of_parts));
}

TemplateValue TemplateValue::undefined(std::string why) {
  return object(Kind::undefined, std::make_shared<Why>(std::move(why)));
}

const Text& TemplateValue::text() const { return as<String>().text; }

bool TemplateValue::is_safe() const { return kind_ == Kind::string && as<String>().safe; }

const std::string& TemplateValue::why_undefined() const {
  static const std::string nothing = "a value is undefined";
  return object_ ? as<Why>().text : nothing;
}

unsigned deepest(const Vector<TemplateValue>& items) {
  unsigned depth = 0;
  for (const TemplateValue& item : items) depth = std::max(depth, item.depth());
  return depth;
}

unsigned deepest(const Vector<Dict::Entry>& entries) {
  unsigned depth = 0;
  for (const auto& [key, value] : entries) depth = std::max({depth, key.depth(), value.depth()});
  return depth;
}

namespace {

// A dict with up to this many entries is searched linearly.
constexpr std::size_t kFewEntries = 16;

}  // namespace

Dict::Dict(Vector<Entry> given) : Object(0, deepest(given) + 1) {
  Vector<std::pair<std::uint64_t, std::uint32_t>> order;
  order.reserve(given.size());
  for (std::uint32_t i = 0; i < given.size(); ++i) order.emplace_back(hash(given[i].first), i);
  std::sort(order.begin(), order.end());
  // The last of equal keys replaces the value of the first, as in Python.
  Vector<bool> dropped(given.size());
  bool duplicates = false;
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t k = i + 1; k < order.size() && order[k].first == order[i].first; ++k)
      if (!dropped[order[i].second] && !dropped[order[k].second] &&
          equals(given[order[i].second].first, given[order[k].second].first)) {
        given[order[i].second].second = given[order[k].second].second;
        dropped[order[k].second] = duplicates = true;
      }
  if (!duplicates) {
    entries_ = std::move(given);
    if (entries_.size() > kFewEntries) sorted_ = std::move(order);
    return;
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!dropped[i]) entries_.push_back(std::move(given[i]));
  if (entries_.size() <= kFewEntries) return;
  for (std::uint32_t i = 0; i < entries_.size(); ++i)
    sorted_.emplace_back(hash(entries_[i].first), i);
  std::sort(sorted_.begin(), sorted_.end());
}

const TemplateValue* Dict::find(const TemplateValue& key) const {
  const std::uint64_t wanted = hash(key);
  if (sorted_.empty()) {
    for (const auto& [name, value] : entries_)
      if (equals(name, key)) return &value;
    return nullptr;
  }
  auto at = std::lower_bound(sorted_.begin(), sorted_.end(), std::pair{wanted, std::uint32_t{0}});
  for (; at != sorted_.end() && at->first == wanted; ++at)
    if (equals(entries_[at->second].first, key)) return &entries_[at->second].second;
  return nullptr;
}

const TemplateValue* Dict::find(std::string_view utf8_key) const {
  if (!sorted_.empty()) return find(TemplateValue::string(utf8_key));
  for (const auto& [name, value] : entries_)
    if (name.is(Kind::string) && equal(name.text(), utf8_key)) return &value;
  return nullptr;
}

TemplateValue make_dict(Vector<Dict::Entry> entries) {
  return TemplateValue::object(Kind::dict, std::make_shared<Dict>(std::move(entries)));
}

std::uint64_t hash(const TemplateValue& value) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  Budget::step();
  switch (value.kind()) {
    case Kind::none:
      return 1;
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      return std::hash<double>()(value.real());  // equal numbers of all three kinds are one key
    case Kind::string: {
      Budget::step(value.text().size() / 32);
      std::uint64_t h = 0xcbf29ce484222325;
      for (Char c : value.text()) h = (h ^ code_of(c)) * kPrime;
      return h;
    }
    case Kind::tuple: {
      std::uint64_t h = 3;
      for (const TemplateValue& item : value.as<ListObject>().items) h = (h ^ hash(item)) * kPrime;
      return h;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::view:
      fail("unhashable type: '{}'", type_name(value));
    case Kind::undefined:
      return 2;
    default:
      return std::hash<const void*>()(value.object().get());
  }
}

bool truth(const TemplateValue& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.whole() != 0;
    case Kind::real:
      return value.real() != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::bytes:
      return !value.as<Bytes>().bytes.empty();
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      return !value.as<ListObject>().items.empty();
    case Kind::dict:
      return !value.as<Dict>().entries().empty();
    case Kind::range:
      return value.as<Range>().size != 0;
    default:
      return true;
  }
}

namespace {

bool equal_items(const Vector<TemplateValue>& a, const Vector<TemplateValue>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equals);
}

// keys() and items() compare as sets do.
bool equal_views(const TemplateValue& a, const TemplateValue& b) {
  const auto &x = a.as<ListObject>(), &y = b.as<ListObject>();
  if (x.name == "dict_values" || y.name == "dict_values") return same(a, b);
  return x.items.size() == y.items.size() &&
         std::ranges::all_of(x.items, [&](const TemplateValue& item) {
           return std::ranges::any_of(
               y.items, [&](const TemplateValue& other) { return equals(item, other); });
         });
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.entries().size() != b.entries().size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
    const TemplateValue* other = b.find(entry.first);
    return other && equals(entry.second, *other);
  });
}

}  // namespace

std::partial_ordering compare_numbers(const TemplateValue& a, const TemplateValue& b) {
  if (a.is_whole() && b.is_whole()) return a.whole() <=> b.whole();
  if (a.is(Kind::real) && b.is(Kind::real)) return a.real() <=> b.real();
  if (a.is(Kind::real)) return 0 <=> compare_numbers(b, a);
  // Only integers below 2^53 are doubles.
  constexpr double kBeyond = 0x1p127;
  const double floor = std::floor(b.real());
  if (!(std::fabs(floor) < kBeyond)) return 0.0 <=> b.real();
  const auto below = static_cast<Integer>(floor);
  if (a.whole() != below) return a.whole() <=> below;
  return floor <=> b.real();
}

bool equals(const TemplateValue& a, const TemplateValue& b) {
  Budget::step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      return equal(a.text(), b.text());
    case Kind::bytes:
      Budget::step(a.as<Bytes>().bytes.size() / 64);
      return a.as<Bytes>().bytes == b.as<Bytes>().bytes;
    case Kind::list:
    case Kind::tuple:
      return equal_items(a.as<ListObject>().items, b.as<ListObject>().items);
    case Kind::dict:
      return equal_dicts(a.as<Dict>(), b.as<Dict>());
    case Kind::range:
      return equal_items(elements(a), elements(b));
    case Kind::view:
      return equal_views(a, b);
    default:
      return same(a, b);
  }
}

bool same(const TemplateValue& a, const TemplateValue& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::none:
      return true;
    case Kind::boolean:
    case Kind::integer:
      return a.whole() == b.whole();
    case Kind::real:
      return a.real() == b.real();
    case Kind::string:
      return a.object() == b.object() || equal(a.text(), b.text());
    case Kind::callable:
      return same_callable(a, b);
    default:
      return a.object() == b.object();
  }
}

}  // namespace lamina::jinja
