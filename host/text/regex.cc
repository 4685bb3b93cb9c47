#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <new>
#include <vector>

#include "core/error.h"
#include "core/printable.h"

namespace lamina::text {
namespace {

constexpr std::size_t kMaxPatternBytes = 1 << 16;

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

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
  // For Oniguruma ^ and $ are the ends of lines.
  const std::uint32_t anchors =
      dialect == Dialect::fancy_regex ? PCRE2_DOLLAR_ENDONLY : PCRE2_MULTILINE;
  int error = 0;
  std::size_t error_offset = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                    PCRE2_UTF | PCRE2_UCP | anchors, &error, &error_offset, nullptr);
  if (!compiled && error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
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
  if (!state_->match || !state_->context || !state_->stack) throw std::bad_alloc();
  pcre2_set_match_limit(state_->context, 20'000'000);
  pcre2_set_depth_limit(state_->context, 1'000'000);
  pcre2_set_heap_limit(state_->context, 256 << 10);  // KiB
  pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
}

Regex::Searcher::Searcher(Searcher&&) noexcept = default;
Regex::Searcher::~Searcher() {
  if (!state_) return;
  try {
    spare<State>().push_back(std::move(state_));
  } catch (const std::bad_alloc&) {  // then the next searcher makes a new one
  }
}

bool Regex::Searcher::find(std::string_view text, std::size_t start, Match& match) {
  const int found =
      pcre2_match(regex_->code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                  start, PCRE2_NO_UTF_CHECK, state_->match, state_->context);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
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
