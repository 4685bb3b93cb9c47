#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/error.h"
#include "core/printable.h"
#include "text/unicode_additions.h"

namespace lamina::text {
namespace {

constexpr std::size_t kMaxPatternBytes = 1 << 16;

// White space as the reference has it. PCRE2's own \s also holds U+180E.
constexpr std::string_view kSpace = "\\x09-\\x0D\\x20\\x{85}\\p{Z}";

[[noreturn]] void unsupported(const std::string& where, std::string_view what) {
  throw UserError(ExitCode::checkpoint, {where,
                                         fmt::format("{} in a pattern is not supported", what),
                                         {"please report which model needs it"}});
}

std::string_view additions(std::string_view category) {
  for (const UnicodeAdditions& added : kUnicodeAdditions)
    if (added.category == category) return added.ranges;
  return "";
}

// One escape that stands for a set: what to put inside a class, and whether it is negated.
struct Set {
  std::string inside;
  bool negated;
};

class PatternRewriter {
 public:
  PatternRewriter(std::string_view pattern, const std::string& where, Regex::Dialect dialect)
      : in_(pattern), where_(where), dialect_(dialect) {}

  std::string run() {
    while (at_ < in_.size()) step();
    return std::move(out_);
  }

 private:
  void step() {
    const char c = in_[at_];
    if (c == '\\') return escape();
    if (in_class_) {
      if (c == '[' && in_.substr(at_ + 1, 1) != ":") unsupported(where_, "a class inside a class");
      if (c == '&' && in_.substr(at_, 2) == "&&") unsupported(where_, "'&&' inside a class");
      if (c == ']' && at_ > class_begin_) in_class_ = false;
    } else if (c == '[') {
      in_class_ = true;
      out_ += in_[at_++];
      if (at_ < in_.size() && in_[at_] == '^') out_ += in_[at_++];
      class_begin_ = at_;
      return;
    } else if (c == '}' && in_.substr(at_ + 1, 1) == "+" && dialect_ == Regex::Dialect::oniguruma) {
      // Possessive for PCRE2, a repeated repeat for Oniguruma.
      unsupported(where_, "'}+'");
    }
    out_ += in_[at_++];
  }

  void escape() {
    const std::string_view next = in_.substr(at_ + 1, 1);
    if (next == "s" || next == "S") {
      at_ += 2;
      return put({std::string(kSpace), next == "S"});
    }
    if ((next == "p" || next == "P") && in_.substr(at_ + 2, 1) == "{") {
      const auto close = in_.find('}', at_);
      if (close != in_.npos) {
        std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
        bool negated = next == "P";
        if (name.starts_with('^')) {
          negated = !negated;
          name.remove_prefix(1);
        }
        at_ = close + 1;
        const std::string property(name == "Han" ? "sc:Han" : name);
        return put({fmt::format("\\p{{{}}}{}", property, additions(name)), negated});
      }
    }
    if (next == "h" || next == "H") unsupported(where_, "'\\h'");
    out_ += in_.substr(at_, 2);
    at_ += 2;
  }

  void put(const Set& set) {
    if (!in_class_)
      out_ += fmt::format("[{}{}]", set.negated ? "^" : "", set.inside);
    else if (set.negated)
      unsupported(where_, "a negated set inside a class");
    else
      out_ += set.inside;
  }

  std::string_view in_;
  const std::string& where_;
  Regex::Dialect dialect_;
  std::string out_;
  std::size_t at_ = 0;
  std::size_t class_begin_ = 0;
  bool in_class_ = false;
};

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

namespace detail {
std::string rewrite_pattern(std::string_view pattern, const std::string& where,
                            Regex::Dialect dialect) {
  return PatternRewriter(pattern, where, dialect).run();
}
}  // namespace detail

struct Regex::Code {
  pcre2_code* compiled;
  explicit Code(pcre2_code* code) : compiled(code) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(std::string_view pattern, std::string where, Dialect dialect)
    : where_(std::move(where)) {
  if (pattern.size() > kMaxPatternBytes)
    user_error(ExitCode::checkpoint, where_, "a pattern of {} bytes; at most {} are accepted",
               pattern.size(), kMaxPatternBytes);
  const std::string rewritten = detail::rewrite_pattern(pattern, where_, dialect);
  int error = 0;
  std::size_t error_offset = 0;
  pcre2_code* compiled = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
      PCRE2_UTF | PCRE2_UCP | (dialect == Dialect::fancy_regex ? PCRE2_DOLLAR_ENDONLY : 0), &error,
      &error_offset, nullptr);
  if (!compiled)
    throw UserError(
        ExitCode::checkpoint,
        {where_,
         fmt::format("the pattern is not a regular expression: {}", pcre2_message(error)),
         {fmt::format("at '{}'", printable(std::string_view(rewritten).substr(
                                               std::min(error_offset, rewritten.size())),
                                           40))}});
  code_ = std::make_unique<Code>(compiled);
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // without JIT it is interpreted: slower
}

Regex::Regex(Regex&&) noexcept = default;
Regex::~Regex() = default;

struct Regex::Searcher::State {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, 16 << 20, nullptr);
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

namespace {

// States of this thread that no searcher uses now: making a stack takes longer than splitting a
// line.
template <typename State>
std::vector<std::unique_ptr<State>>& spare() {
  thread_local std::vector<std::unique_ptr<State>> states;
  return states;
}

}  // namespace

Regex::Searcher::Searcher(const Regex& regex) : regex_(&regex) {
  if (auto& states = spare<State>(); !states.empty()) {
    state_ = std::move(states.back());
    states.pop_back();
    return;
  }
  state_ = std::make_unique<State>();
  LAMINA_ASSERT(state_->match && state_->context && state_->stack);
  pcre2_set_match_limit(state_->context, 20'000'000);
  pcre2_set_depth_limit(state_->context, 1'000'000);
  pcre2_set_heap_limit(state_->context, 256 << 10);  // KiB
  pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
}

Regex::Searcher::Searcher(Searcher&&) noexcept = default;
Regex::Searcher::~Searcher() {
  if (state_) spare<State>().push_back(std::move(state_));
}

bool Regex::Searcher::find(std::string_view text, std::size_t start, Match& match) {
  const int found =
      pcre2_match(regex_->code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                  start, PCRE2_NO_UTF_CHECK, state_->match, state_->context);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    throw UserError(ExitCode::data,
                    {regex_->where_,
                     fmt::format("matching the pattern against a text of {} bytes gave up: {}",
                                 text.size(), pcre2_message(found)),
                     {"the pattern backtracks too much on this text: split the text"}});
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state_->match);
  match = {offsets[0], offsets[1]};
  return true;
}

}  // namespace lamina::text
