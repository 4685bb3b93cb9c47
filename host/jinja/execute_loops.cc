// "for", and the members of "loop".
#include "jinja/interpreter.h"

namespace lamina::jinja {

bool LoopVariable::look_ahead() {
  while (std::optional<TemplateValue> candidate = source.next()) {
    Budget::step();
    if (accept && !accept(*candidate)) continue;
    ahead.push_back(*std::move(candidate));
    return true;
  }
  return false;
}

bool LoopVariable::advance() {
  if (!peek()) return false;
  previous = index ? std::move(current) : TemplateValue::undefined("there is no previous item");
  current = std::move(ahead.front());
  ahead.pop_front();
  ++index;
  return true;
}

void LoopVariable::finish() {
  over = true;
  accept = nullptr;
  source = Elements();
  ahead.clear();
  last_changed.clear();
  previous = current = TemplateValue();
  recursive = nullptr;
  scope = nullptr;
}

void Interpreter::execute_loop(const Statement& statement) {
  const TemplateValue items = evaluate(*statement.expression);
  at_ = statement.at;
  run_loop(statement, items, 0);
}

void Interpreter::run_loop(const Statement& statement, const TemplateValue& items, unsigned depth) {
  const std::shared_ptr<Scope> around = scope_;
  const auto loop = std::make_shared<LoopVariable>(items, depth);
  loops_.push_back(loop.get());
  struct Finish {
    Interpreter& interpreter;
    LoopVariable& of;
    ~Finish() {
      of.finish();
      interpreter.loops_.pop_back();
    }
  } const finish{*this, *loop};
  if (statement.filter)
    loop->accept = [&](const TemplateValue& candidate) {
      const Inner inner(*this, around);
      assign(*statement.target, candidate);
      return truth(evaluate(*statement.filter));
    };
  if (statement.recursive) {
    loop->recursive = &statement;
    loop->scope = around;
  }
  bool completed = false;  // an iteration reached its end, so "else" does not run
  while (loop->advance()) {
    Budget::step();
    const Inner inner(*this, around);
    scope_->set(kLoop, TemplateValue::object(Kind::loop, loop));
    assign(*statement.target, loop->current);
    const Flow flow = execute(statement.body);
    if (flow == Flow::break_loop) break;
    completed |= flow == Flow::normal;
  }
  if (completed) return;
  const Inner inner(*this, around);
  execute(statement.otherwise);
}

// The element of RenderOptions::elements that the innermost loop over any of them visits.
std::optional<std::size_t> Interpreter::visited_element() const {
  Budget::step(loops_.size() * elements_.size() / 64);
  for (auto loop = loops_.rbegin(); loop != loops_.rend(); ++loop)
    if (const auto& object = (*loop)->current.object())
      for (std::size_t i = 0; i < elements_.size(); ++i)
        if (elements_[i].object() == object) return i;
  return {};
}

}  // namespace lamina::jinja
