// Functions available in every chat template: Jinja's own, and those that transformers adds.
#include "jinja/interpreter.h"
#include "jinja/library/methods.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

TemplateValue range(Interpreter&, Call call) {
  const Parameters p(call, "range()", {"start", "stop", "step"});
  const std::int64_t first = to_index(p.need(0));
  const std::int64_t start = p.get(1) ? first : 0;
  const std::int64_t stop = p.get(1) ? to_index(*p.get(1)) : first;
  const std::int64_t step = p.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  const Integer span = step > 0 ? Integer{stop} - start : Integer{start} - stop;
  const Integer stride = step > 0 ? Integer{step} : -Integer{step};
  const Integer size = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (size > kMaxRange)
    fail("range() has {} numbers; a template may have {}", format_integer(size), kMaxRange);
  return TemplateValue::object(
      Kind::range, std::make_shared<Range>(start, stop, step, static_cast<std::int64_t>(size)));
}

// dict(a=1), dict({'a': 1}, b=2), dict([('a', 1)])
TemplateValue dict(Interpreter&, Call call) {
  Vector<Dict::Entry> entries;
  if (call.positional.size() > 1) fail("dict() takes at most 1 positional argument");
  if (!call.positional.empty()) {
    const TemplateValue& from = call.positional[0];
    if (from.is(Kind::dict)) {
      entries = from.as<Dict>().entries();
    } else {
      for (const TemplateValue& item : elements(from)) {
        const Vector<TemplateValue> pair = elements(item);
        if (pair.size() != 2) fail("dict() needs pairs of a key and a value");
        entries.emplace_back(pair[0], pair[1]);
      }
    }
  }
  entries.insert(entries.end(), call.named.begin(), call.named.end());
  return make_dict(std::move(entries));
}

TemplateValue make_namespace(Interpreter& interpreter, Call call) {
  const auto space = std::make_shared<Namespace>();
  interpreter.keep(space);
  const TemplateValue first = dict(interpreter, call);
  for (const auto& [key, value] : first.as<Dict>().entries()) {
    TemplateValue name = TemplateValue::string(str(key));
    check_attribute_name(to_utf8(name.text()));
    space->set(std::move(name), value);
  }
  return TemplateValue::object(Kind::space, space);
}

TemplateValue raise_exception(Interpreter&, Call call) {
  const Parameters p(call, "raise_exception()", {"message"});
  throw TemplateFailure(to_utf8(str(p.need(0))));
}

TemplateValue strftime_now(Interpreter& interpreter, Call call) {
  const Parameters p(call, "strftime_now()", {"format"});
  const Text& format = need_text(p.need(0), "the format of strftime_now()");
  return TemplateValue::string(
      to_text(format_time(interpreter.now(), to_utf8(format)), has_given(format)));
}

TemplateValue cycler(Interpreter&, Call call) {
  if (call.positional.empty()) fail("cycler() has no items");
  return TemplateValue::object(Kind::cycler, std::make_shared<Cycler>(call.positional));
}

TemplateValue joiner(Interpreter&, Call call) {
  const Parameters p(call, "joiner()", {"sep"});
  return TemplateValue::object(
      Kind::joiner, std::make_shared<Joiner>(p.get(0) ? *p.get(0) : TemplateValue::string(", ")));
}

// Jinja has a generator of random text; chat templates do not need it.
TemplateValue lipsum(Interpreter&, Call) {
  fail("lipsum() makes random text, which lamina does not have");
}

}  // namespace

void check_attribute_name(std::string_view name) {
  if (name.starts_with('_'))
    fail("the attribute '{}' of a namespace begins with an underscore; rename it", name);
}

TemplateValue dict_from_keys(Interpreter&, const CallArguments& call) {
  const Parameters p(call, "dict.fromkeys()", {"iterable", "value"});
  const TemplateValue value = p.get(1) ? *p.get(1) : TemplateValue::none();
  Vector<Dict::Entry> entries;
  for (TemplateValue& key : elements(p.need(0))) entries.emplace_back(std::move(key), value);
  return make_dict(std::move(entries));
}

std::optional<TemplateValue> type_attribute(const Callable& type, std::string_view name) {
  if (type.function != dict || name != "fromkeys") return {};
  return TemplateValue::object(Kind::callable,
                               std::make_shared<Callable>("dict.fromkeys", dict_from_keys));
}

std::span<const GlobalFunction> global_functions() {
  static constexpr GlobalFunction kFunctions[] = {
      {"range", "range", range, true},
      {"dict", "dict", dict, true},
      {"namespace", "jinja2.utils.Namespace", make_namespace, true},
      {"cycler", "jinja2.utils.Cycler", cycler, true},
      {"joiner", "jinja2.utils.Joiner", joiner, true},
      {"raise_exception", "raise_exception", raise_exception, false},
      {"strftime_now", "strftime_now", strftime_now, false},
      {"lipsum", "lipsum", lipsum, false},
  };
  return kFunctions;
}

}  // namespace lamina::jinja
