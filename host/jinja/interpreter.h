// Walks the tree of a template: one object renders once. Private to the library, except for
// filters.
#pragma once

#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/parse/syntax.h"
#include "jinja/template.h"
#include "jinja/values/objects.h"

namespace lamina::jinja {

// The variable "loop". The filter tests elements one by one, as late as possible, because the body
// may change the variables that it reads.
struct LoopVariable : Object {
  LoopVariable(const TemplateValue& items, unsigned level)
      : Object(sizeof(LoopVariable), items.depth() + 1), source(items), depth0(level) {}
  Elements source;
  unsigned depth0;
  std::function<bool(const TemplateValue&)> accept;                  // absent: every element
  std::deque<TemplateValue, CountedAllocator<TemplateValue>> ahead;  // accepted, not yet started
  std::size_t index = 0;                                             // elements started
  TemplateValue previous, current;
  Vector<TemplateValue> last_changed;
  bool has_changed = false;
  const Statement* recursive = nullptr;
  std::shared_ptr<Scope> scope;  // around the loop, if it is recursive
  bool over = false;

  bool look_ahead();  // for the next accepted element; false if there is none
  bool peek() { return !ahead.empty() || look_ahead(); }  // true if there is another element
  void look_all() {
    while (look_ahead()) continue;
  }
  bool advance();  // to the next element; false at the end
  void finish();   // releases all elements
};

class Interpreter {
 public:
  Interpreter(const Tree& tree, const RenderOptions& options)
      : tree_(tree), now_(options.now), elements_(options.elements) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Renders the whole template with these variables.
  Text render(const std::vector<std::pair<std::string, TemplateValue>>& variables);
  // The position in the template of the last evaluation.
  Position at() const { return at_; }
  // The text written inside "generation" blocks.
  const Vector<GeneratedSpan>& generated() const { return generated_; }
  const std::tm& now() const { return now_; }

  // For filters and functions.
  TemplateValue call(const TemplateValue& callee, const CallArguments& arguments);
  TemplateValue attribute(const TemplateValue& of, std::string_view name);
  TemplateValue item(const TemplateValue& of, const TemplateValue& key);
  // Empties the scope, namespace or loop at the end of the render: they may refer to themselves.
  void keep(std::shared_ptr<Scope> scope) { scopes_.push_back(std::move(scope)); }
  void keep(std::shared_ptr<Namespace> space) { spaces_.push_back(std::move(space)); }

 private:
  enum class Flow { normal, break_loop, next_iteration };
  struct Level;   // counts nested evaluations
  struct Inner;   // makes a scope the current one
  struct Output;  // makes another text the current output

  // Statements (execute.cc, execute_loops.cc).
  TemplateValue blocks();
  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute_conditional(const Statement& statement);
  Flow execute_block(const Statement& statement);
  void execute_set_block(const Statement& statement);
  void execute_filter_block(const Statement& statement);
  void execute_macro(const Statement& statement);
  void execute_call(const Statement& statement);
  void execute_loop(const Statement& statement);
  void run_loop(const Statement& statement, const TemplateValue& items, unsigned depth);
  std::optional<std::size_t> visited_element() const;
  void assign(const Expression& target, const TemplateValue& value);
  void write(TextView text);
  void write(const TemplateValue& value);
  Text capture(const Body& body, Flow& flow);

  // Expressions (evaluate.cc).
  TemplateValue evaluate(const Expression& e);
  TemplateValue evaluate_name(const Expression& e);
  TemplateValue evaluate_slice(const Expression& e);
  TemplateValue evaluate_call(const Expression& e);
  TemplateValue evaluate_filter(const Expression& e, const TemplateValue* block_input = nullptr);
  TemplateValue evaluate_test(const Expression& e);
  TemplateValue evaluate_compare(const Expression& e);
  TemplateValue evaluate_concat(const Expression& e);
  TemplateValue evaluate_items(const Expression& e);
  CallArguments evaluate_arguments(const Expression& e);

  // Calls (calls.cc).
  TemplateValue call_macro(const Callable& callable, const CallArguments& arguments);
  TemplateValue call_loop(const TemplateValue& loop, const CallArguments& arguments);

  const Tree& tree_;
  const std::tm now_;
  const std::span<const TemplateValue> elements_;
  Position at_ = 0;
  unsigned depth_ = 0;
  bool escapes_ = false;  // inside {% autoescape true %}
  std::shared_ptr<Scope> scope_, top_;
  Text* out_ = nullptr;
  std::size_t num_written_ = 0;  // characters in all open outputs
  const Text* root_ = nullptr;
  Vector<GeneratedSpan> generated_;
  Vector<const LoopVariable*> loops_;  // in progress, the outermost first
  Vector<std::shared_ptr<Scope>> scopes_;
  Vector<std::shared_ptr<Namespace>> spaces_;
};

struct Interpreter::Level {
  explicit Level(Interpreter& i) : interpreter(i) {
    if (++i.depth_ > Budget::current()->limits().max_depth) {
      --i.depth_;
      fail("more than {} evaluations are inside each other", Budget::current()->limits().max_depth);
    }
  }
  ~Level() { --interpreter.depth_; }
  Interpreter& interpreter;
};

struct Interpreter::Inner {
  Inner(Interpreter& i, std::shared_ptr<Scope> around)
      : interpreter(i), outer(std::exchange(i.scope_, nullptr)) {
    i.scope_ = std::make_shared<Scope>(std::move(around));
  }
  explicit Inner(Interpreter& i) : Inner(i, i.scope_) {}
  ~Inner() { interpreter.scope_ = std::move(outer); }
  Interpreter& interpreter;
  std::shared_ptr<Scope> outer;
};

struct Interpreter::Output {
  Output(Interpreter& i, Text& to) : interpreter(i), outer(std::exchange(i.out_, &to)) {}
  ~Output() {
    interpreter.num_written_ -= interpreter.out_->size();
    interpreter.out_ = outer;
  }
  Interpreter& interpreter;
  Text* outer;
};

// The functions available in every template: range, dict, namespace, raise_exception ...
struct GlobalFunction {
  std::string_view name;
  const char* printed;
  Callable::Function function;
  bool is_type;  // prints as "<class ...>"
};
std::span<const GlobalFunction> global_functions();
// Functions that are attributes of a type: dict.fromkeys.
std::optional<TemplateValue> type_attribute(const Callable& type, std::string_view name);
// Throws Failure for a name that begins with an underscore.
void check_attribute_name(std::string_view name);

// Calls a method of a string, number, list or dict. `found` is false if there is no such method.
TemplateValue call_method(Interpreter& interpreter, const TemplateValue& self,
                          std::string_view name, const CallArguments& arguments, bool& found);
bool has_method(const TemplateValue& self, std::string_view name);
// True for a method that would change the value, which templates must not do.
bool is_mutator(const TemplateValue& self, std::string_view name);

constexpr std::int64_t kMaxFormatWidth = 1 << 20;

// Operators (operators.cc).
TemplateValue arithmetic(std::string_view op, TemplateValue a, const TemplateValue& b);
TemplateValue negative(const TemplateValue& value);
TemplateValue positive(const TemplateValue& value);
bool compare(std::string_view op, const TemplateValue& a, const TemplateValue& b);
// Python's "<", also for sorting; throws Failure for values without an order.
bool less(const TemplateValue& a, const TemplateValue& b);
bool contains(const TemplateValue& container, const TemplateValue& item);
// value[begin:end:step]; none or undefined members are absent.
TemplateValue slice(const TemplateValue& value, const TemplateValue& begin,
                    const TemplateValue& end, const TemplateValue& step);
// Markup: "&", "<", ">" and quotes as entities. Safe text stays unchanged.
Text escape(const TemplateValue& value);

// "%s of %d" % value, and the filter format (format_percent.cc).
Text format_percent(const Text& format, const TemplateValue& values);
// '{} {name:>5}'.format(...) (format_braces.cc).
Text format_braces(Interpreter& interpreter, const Text& format, const CallArguments& arguments);
// Formats a number or string by a format specification such as ">8.2f".
Text format_spec(const TemplateValue& value, TextView spec);

// json.dumps of Python (to_json.cc).
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<Text> indent = {};
  Text item_separator = U", ", key_separator = U": ";
  bool sort_keys = false;
};
Text to_json(const TemplateValue& value, const JsonStyle& style);

// datetime.strftime of Python, in the C locale (clock.cc).
std::string format_time(const std::tm& time, std::string_view format);

}  // namespace lamina::jinja
