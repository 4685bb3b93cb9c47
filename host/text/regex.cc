#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/printable.h"
#include "text/unicode_additions.h"

namespace lamina::text {
namespace {

constexpr std::size_t kMaxPatternBytes = 1 << 16;
constexpr std::size_t kMaxRewrittenBytes = 1 << 22;  // sets of characters are much longer in PCRE2

// White space as in the reference. PCRE2's own \s also contains U+180E.
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

// Oniguruma's \w: letters and other alphabetic characters, marks, decimal digits, connectors.
std::string word_characters() {
  constexpr std::string_view kCircledLetters =
      "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
  std::string out = "\\p{Nl}\\p{Pc}";
  for (const std::string_view category : {"L", "M", "Nd"})
    out += fmt::format("\\p{{{}}}{}", category, additions(category));
  return out.append(kCircledLetters);
}
// It has these, too, outside of a class: the powers and fractions of Latin-1.
constexpr std::string_view kWordOutsideClass = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

// An escape for a set: its text inside a class, and its negation.
struct Set {
  std::string inside;
  bool negated;
};

// Deeper than in any pattern in use; bounds the stack of the parser.
constexpr int kMaxClassDepth = 64;

class PatternRewriter {
 public:
  PatternRewriter(std::string_view pattern, const std::string& where, Regex::Dialect dialect)
      : in_(pattern), where_(where), dialect_(dialect) {}

  std::string run() {
    while (at_ < in_.size()) {
      step();
      if (out_.size() > kMaxRewrittenBytes)
        unsupported(where_,
                    fmt::format("more than {} bytes of character sets", kMaxRewrittenBytes));
    }
    return std::move(out_);
  }

 private:
  // Characters between two operators of a class: those written in it, and patterns of one character
  // that PCRE2 cannot write inside a class.
  struct Operand {
    std::string inside;
    std::vector<std::string> others;

    bool empty() const { return inside.empty() && others.empty(); }
    std::string pattern() const {
      if (others.empty()) return fmt::format("[{}]", inside);
      std::string out;
      if (!inside.empty()) out = fmt::format("[{}]", inside);
      for (const std::string& other : others) out += (out.empty() ? "" : "|") + other;
      return fmt::format("(?:{})", out);
    }
  };

  bool starts_with(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  void step() {
    const char c = in_[at_];
    if (c == '\\') {
      if (const auto set = read_escape(/*in_class=*/false))
        out_ += fmt::format("[{}{}]", set->negated ? "^" : "", set->inside);
    } else if (c == '[') {
      out_ += read_class(1);
    } else if (dialect_ == Regex::Dialect::fancy_regex || !step_of_oniguruma()) {
      out_ += in_[at_++];
    }
  }

  // Translates syntax that PCRE2 reads differently. False for other syntax.
  bool step_of_oniguruma() {
    if (starts_with("}+"))
      unsupported(where_, "'}+'");  // possessive for PCRE2, else repeated twice
    if (starts_with("(?")) refuse_options();
    if (in_[at_] != '{') return false;
    const std::size_t first = at_ + (starts_with("{,") ? 2 : 1);
    const std::size_t end = std::min(in_.find_first_not_of("0123456789", first), in_.size());
    if (end == first || !in_.substr(end).starts_with('}')) return false;
    if (first == at_ + 2) {
      out_ += "{0,";
      at_ = first;
      return true;
    }
    if (in_.substr(end).starts_with("}?"))
      unsupported(where_, "'?' after '{N}'");  // optional, not lazy
    return false;
  }

  // (?m) is PCRE2's (?s), which Oniguruma does not have.
  void refuse_options() const {
    for (const char c : in_.substr(at_ + 2)) {
      if (c == 'm' || c == 's') unsupported(where_, fmt::format("the option '{}' of a group", c));
      if (c != '-' && c != 'i' && c != 'x') return;
    }
  }

  // Translates "[...]": classes of classes become groups with look-aheads that match one character.
  std::string read_class(int depth) {
    if (depth > kMaxClassDepth)
      unsupported(where_, fmt::format("a class inside more than {} others", kMaxClassDepth));
    ++at_;
    const bool negated = starts_with("^");
    if (negated) ++at_;
    const std::size_t begin = at_;
    Operand operand;
    std::string left;  // operand of the operators so far
    std::string_view last_sign;
    while (at_ < in_.size() && (in_[at_] != ']' || at_ == begin)) {
      if (const std::string_view sign = class_operator(); !sign.empty()) {
        left = join(left, last_sign, operand);
        last_sign = sign;
        operand = {};
        at_ += sign.size();
      } else {
        read_item(operand, depth);
      }
    }
    const bool closed = at_ < in_.size();
    if (closed) ++at_;
    if (left.empty() && operand.others.empty())
      return fmt::format("[{}{}{}", negated ? "^" : "", operand.inside, closed ? "]" : "");
    if (!closed) unsupported(where_, "a class without its ']'");
    const std::string whole = join(left, last_sign, operand);
    return negated ? fmt::format("(?:(?!{})(?s:.))", whole) : whole;
  }

  // "&&" is an intersection. "--" is a difference only for the regular expressions of Rust.
  std::string_view class_operator() const {
    if (starts_with("&&")) return "&&";
    if (dialect_ != Regex::Dialect::fancy_regex) return "";
    if (starts_with("~~")) unsupported(where_, "'~~' inside a class");
    return starts_with("--") ? "--" : "";
  }

  std::string join(const std::string& left, std::string_view sign, const Operand& right) const {
    if (right.empty()) unsupported(where_, "an operator without a set on both sides in a class");
    if (sign.empty()) return right.pattern();
    return fmt::format("(?:({}{}){})", sign[0] == '&' ? "?=" : "?!", right.pattern(), left);
  }

  void read_item(Operand& out, int depth) {
    if (in_[at_] == '\\') {
      const std::size_t before = out_.size();
      const auto set = read_escape(/*in_class=*/true);
      if (!set) {  // it was copied to the output
        out.inside += out_.substr(before);
        out_.resize(before);
      } else if (set->negated) {
        out.others.push_back(fmt::format("[^{}]", set->inside));
      } else {
        out.inside += set->inside;
      }
      return;
    }
    // PCRE2 defines these classes differently from both references.
    if (starts_with("[:") && in_.find(":]", at_ + 2) != in_.npos)
      unsupported(where_, "a class '[:name:]'");
    if (in_[at_] == '[') {
      out.others.push_back(read_class(depth + 1));
    } else {
      out.inside += in_[at_++];
    }
  }

  // A set, or nothing for an escape that is copied to the output.
  std::optional<Set> read_escape(bool in_class) {
    const std::string_view next = in_.substr(at_ + 1, 1);
    if (next == "s" || next == "S") {
      at_ += 2;
      return Set{std::string(kSpace), next == "S"};
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
        return Set{fmt::format("\\p{{{}}}{}", property, additions(name)), negated};
      }
    }
    if (next == "h" || next == "H") unsupported(where_, "'\\h'");
    if (dialect_ == Regex::Dialect::oniguruma && !next.empty())
      return escape_of_oniguruma(in_class);
    copy_escape();
    return std::nullopt;
  }

  std::optional<Set> escape_of_oniguruma(bool in_class) {
    const char next = in_[at_ + 1];
    const std::string word = word_characters();
    if (next == 'w' || next == 'W') {
      at_ += 2;
      return Set{word + std::string(in_class ? "" : kWordOutsideClass), next == 'W'};
    }
    if (next == 'd' || next == 'D') {
      at_ += 2;
      return Set{fmt::format("\\p{{Nd}}{}", additions("Nd")), next == 'D'};
    }
    // \Q and \E are letters for Oniguruma, and so is \p without a brace.
    if (std::string_view("EKQX").find(next) != std::string_view::npos)
      unsupported(where_, fmt::format("'\\{}'", next));
    if ((next == 'p' || next == 'P') && in_.substr(at_ + 2, 1) != "{")
      unsupported(where_, fmt::format("'\\{}' without '{{'", next));
    if (next == 'v') {
      out_ += "\\x0B";
      at_ += 2;
    } else if (!in_class && (next == 'b' || next == 'B')) {
      const std::string one = fmt::format("[{}{}]", word, kWordOutsideClass);
      out_ += next == 'b' ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", one)
                          : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", one);
      at_ += 2;
    } else {
      copy_escape();
    }
    return std::nullopt;
  }

  // Copies an escape, and the braces of \x{61}, which repeat nothing.
  void copy_escape() {
    const std::size_t close = in_.substr(at_ + 1).starts_with("x{") ? in_.find('}', at_) : in_.npos;
    const std::size_t size = close == in_.npos ? 2 : close + 1 - at_;
    out_ += in_.substr(at_, size);
    at_ += std::min(size, in_.size() - at_);
  }

  std::string_view in_;
  const std::string& where_;
  Regex::Dialect dialect_;
  std::string out_;
  std::size_t at_ = 0;
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
