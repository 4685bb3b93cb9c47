// Rewrites patterns to PCRE2's syntax.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/printable.h"
#include "text/regex.h"
#include "text/regex_sets.h"

namespace lamina::text {
namespace {

constexpr std::size_t kMaxRewrittenBytes = 1 << 22;  // sets of characters are much longer in PCRE2

[[noreturn]] void unsupported(const std::string& where, std::string_view what) {
  throw UserError(ExitCode::checkpoint, {where,
                                         fmt::format("{} in a pattern is not supported", what),
                                         {"please report which model needs it"}});
}

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
    follow_case();
    if (c == '\\') {
      if (const auto set = read_escape(/*in_class=*/false))
        out_ += fmt::format("[{}{}]", set->negated ? "^" : "", set->inside);
    } else if (c == '[') {
      out_ += read_class(1);
    } else if (dialect_ == Regex::Dialect::fancy_regex || !step_of_oniguruma()) {
      out_ += in_[at_++];
    }
  }

  // Follows the option i of groups: "(?i:" and "(?-i:" set it inside, "(?i)" up to the end of the
  // group around it.
  void follow_case() {
    if (in_[at_] == ')' && ignores_case_.size() > 1) ignores_case_.pop_back();
    if (in_[at_] != '(') return;
    bool on = ignores_case_.back();
    if (starts_with("(?")) {
      const std::size_t end = std::min(in_.find_first_not_of("imsxU-", at_ + 2), in_.size());
      const std::string_view options = in_.substr(at_ + 2, end - at_ - 2);
      const bool isolated = in_.substr(end).starts_with(")");
      if (const std::size_t i = options.find('i');
          i != options.npos && (isolated || in_.substr(end).starts_with(":")))
        on = i < options.find('-');
      if (isolated) ignores_case_.back() = on;
    }
    ignores_case_.push_back(on);
  }

  // Translates syntax that PCRE2 reads differently. False for other syntax.
  bool step_of_oniguruma() {
    if (starts_with("}+"))
      unsupported(where_, "'}+'");  // possessive for PCRE2, else repeated twice
    if (starts_with("(?") && read_options()) return true;
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

  // Translates "(?im-x:" and "(?im-x)". Oniguruma's m is PCRE2's s; it has no s.
  bool read_options() {
    const std::size_t end = std::min(in_.find_first_not_of("imsx-", at_ + 2), in_.size());
    std::string options(in_.substr(at_, end - at_));
    const bool isolated = in_.substr(end).starts_with(")");
    if (options.size() == 2 || !(isolated || in_.substr(end).starts_with(":"))) return false;
    if (options.find('s') != options.npos) unsupported(where_, "the option 's' of a group");
    // In the middle of a branch they begin a group with all branches up to the end of this one.
    if (isolated && !begins_branch())
      unsupported(where_, fmt::format("'{})' inside a branch", options));
    std::ranges::replace(options, 'm', 's');
    out_ += options;
    at_ = end;
    return true;
  }

  bool begins_branch() const {
    if (at_ == 0) return true;
    const char before = in_[at_ - 1];
    return (before == '(' || before == '|') && (at_ == 1 || in_[at_ - 2] != '\\');
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
    if (starts_with("[:") && in_.find(":]", at_ + 2) != in_.npos) return read_bracket(out);
    if (in_[at_] == '[') {
      out.others.push_back(read_class(depth + 1));
    } else {
      out.inside += in_[at_++];
    }
  }

  // Translates "[:name:]", which PCRE2 defines differently from both references.
  void read_bracket(Operand& out) {
    const std::size_t close = in_.find(":]", at_ + 2);
    std::string_view name = in_.substr(at_ + 2, close - at_ - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const auto set = dialect_ == Regex::Dialect::oniguruma ? bracket_set(name) : std::nullopt;
    if (!set) unsupported(where_, fmt::format("a class '[:{}:]'", printable(name, 40)));
    if (negated)
      out.others.push_back(fmt::format("[^{}]", *set));
    else
      out.inside += *set;
    at_ = close + 2;
  }

  // A set, or nothing for an escape that is copied to the output.
  std::optional<CharacterSet> read_escape(bool in_class) {
    const std::string_view next = in_.substr(at_ + 1, 1);
    if (next == "s" || next == "S") {
      at_ += 2;
      return CharacterSet{std::string(kSpaceSet), next == "S"};
    }
    if (next == "p" || next == "P") {
      if (auto set = read_property(in_class)) return set;
    }
    if (next == "u") return read_code_point();
    if (next == "w" || next == "W") {
      at_ += 2;
      return CharacterSet{word(in_class), next == "W"};
    }
    if (next == "d" || next == "D") {
      at_ += 2;
      return CharacterSet{property_set("Nd", dialect_)->inside, next == "D"};
    }
    if (dialect_ == Regex::Dialect::fancy_regex) refuse_escape_of_fancy_regex(in_class);
    if (!in_class && (next == "b" || next == "B")) {
      const std::string one = fmt::format("[{}]", word(in_class));
      out_ += next == "b" ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", one)
                          : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", one);
      at_ += 2;
      return std::nullopt;
    }
    if (dialect_ == Regex::Dialect::oniguruma && !next.empty()) return escape_of_oniguruma();
    copy_escape();
    return std::nullopt;
  }

  // The set of \w.
  std::string word(bool in_class) const {
    if (dialect_ == Regex::Dialect::fancy_regex) return word_characters().append(kJoinControls);
    return word_characters().append(in_class ? "" : kWordOutsideClass);
  }

  // \h is a hexadecimal digit for fancy-regex, and \<, \> and \b{start} are borders of words.
  void refuse_escape_of_fancy_regex(bool in_class) const {
    for (const std::string_view escape : {"\\h", "\\H", "\\<", "\\>", "\\b{", "\\B{"})
      if (starts_with(escape) && !(in_class && (escape == "\\<" || escape == "\\>")))
        unsupported(where_, fmt::format("'{}'", escape));
  }

  // \p{name}, or \pN in Rust. Nothing for other text.
  std::optional<CharacterSet> read_property(bool in_class) {
    bool negated = in_[at_ + 1] == 'P';
    std::string_view name = in_.substr(at_ + 2, 1);
    std::size_t end = at_ + 3;
    if (name == "{") {
      const std::size_t close = in_.find('}', at_);
      if (close == in_.npos) return std::nullopt;
      name = in_.substr(at_ + 3, close - at_ - 3);
      end = close + 1;
    } else if (dialect_ == Regex::Dialect::oniguruma) {
      return std::nullopt;
    }
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    auto set = property_set(name, dialect_);
    if (!set) unsupported(where_, fmt::format("the property '{}'", printable(name, 40)));
    if (ignores_case_.back() && depends_on_case(name) &&
        (in_class || dialect_ == Regex::Dialect::fancy_regex))
      unsupported(where_, fmt::format("the property '{}' with the option i", printable(name, 40)));
    at_ = end;
    set->negated = set->negated != negated;
    return set;
  }

  // \u3040, or \u{3040} in Rust.
  std::optional<CharacterSet> read_code_point() {
    constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
    std::string_view digits = in_.substr(at_ + 2, 4);
    std::size_t end = at_ + 6;
    if (const std::size_t close = in_.find('}', at_);
        dialect_ == Regex::Dialect::fancy_regex && digits.starts_with('{') && close != in_.npos) {
      digits = in_.substr(at_ + 3, close - at_ - 3);
      end = close + 1;
    }
    if (digits.empty() || end > in_.size() || digits.find_first_not_of(kHexDigits) != digits.npos)
      unsupported(where_, "'\\u' without hexadecimal digits");
    out_ += fmt::format("\\x{{{}}}", digits);
    at_ = end;
    return std::nullopt;
  }

  std::optional<CharacterSet> escape_of_oniguruma() {
    const char next = in_[at_ + 1];
    if (next == 'h' || next == 'H') {
      at_ += 2;
      return CharacterSet{std::string(kHexDigitSet), next == 'H'};
    }
    // \Q and \E are letters for Oniguruma, and so is \p without a brace.
    if (std::string_view("EKQX").find(next) != std::string_view::npos)
      unsupported(where_, fmt::format("'\\{}'", next));
    if ((next == 'p' || next == 'P') && in_.substr(at_ + 2, 1) != "{")
      unsupported(where_, fmt::format("'\\{}' without '{{'", next));
    if (next == 'v') {
      out_ += "\\x0B";
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
  std::vector<bool> ignores_case_{false};  // of the open groups
};

}  // namespace

namespace detail {
std::string rewrite_pattern(std::string_view pattern, const std::string& where,
                            Regex::Dialect dialect) {
  return PatternRewriter(pattern, where, dialect).run();
}
}  // namespace detail

}  // namespace lamina::text
