// Builds a tree from tokens, by recursive descent. Private to the library: parse() is in syntax.h.
#pragma once

#include <initializer_list>
#include <map>
#include <string_view>

#include "jinja/parse/syntax.h"

namespace lamina::jinja {

class Parser {
 public:
  explicit Parser(Tree& tree);
  Body parse_template();

 private:
  using Words = std::initializer_list<std::string_view>;

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& next();  // returns the current token and advances
  bool at_op(std::string_view op, std::size_t ahead = 0) const;
  bool at_word(std::string_view word, std::size_t ahead = 0) const;
  bool at_any(Words words) const;
  bool skip_op(std::string_view op);
  bool skip_word(std::string_view word);
  void expect_op(std::string_view op);
  void expect_word(std::string_view word);
  std::string expect_name();
  [[noreturn]] void refuse(Position at, std::string message) const;
  [[noreturn]] void refuse_token(std::string_view expected) const;
  int symbol(const std::string& name);
  // Counts nesting, so that no source overflows the stack.
  class Nesting;

  // Statements (parse_statements.cc).
  Body parse_body(Words ends, Position opened, std::string_view tag);
  std::unique_ptr<Statement> parse_statement();
  std::unique_ptr<Statement> parse_if();
  std::unique_ptr<Statement> parse_for();
  std::unique_ptr<Statement> parse_set();
  std::unique_ptr<Statement> parse_macro();
  std::unique_ptr<Statement> parse_call_block();
  std::unique_ptr<Statement> parse_filter_block();
  std::unique_ptr<Statement> parse_with();
  std::unique_ptr<Statement> parse_block();
  std::unique_ptr<Statement> parse_scoped(StatementKind kind);
  std::unique_ptr<Statement> parse_loop_control();
  void parse_signature(Macro& macro);
  void parse_macro_body(Macro& macro, std::string_view tag, Position at);
  // The body of a block with its own variables, up to "end<tag>", which is read.
  Body parse_inner(std::string_view tag, Position at);
  Body parse_to_end(std::string_view tag, Position at);

  // Expressions (parse_expressions.cc).
  ExpressionPtr parse_expression();  // with an inline if
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filter = true);
  ExpressionPtr parse_postfix(ExpressionPtr of);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr of);
  ExpressionPtr parse_filter(ExpressionPtr of);   // after the "|"
  ExpressionPtr parse_filters(ExpressionPtr of);  // "| a | b", may be empty
  ExpressionPtr parse_test(ExpressionPtr of);
  ExpressionPtr parse_subscript(ExpressionPtr of);
  ExpressionPtr parse_call(ExpressionPtr of);
  void parse_arguments(Expression& call);

  // Literals, tuples and targets (parse_literals.cc).
  enum class Items { expressions, no_conditionals, targets };
  ExpressionPtr parse_primary(bool is_target = false);
  ExpressionPtr parse_tuple(Items items, bool in_parentheses = false,
                            std::string_view end_word = {});
  ExpressionPtr parse_target(std::string_view end_word = {}, bool with_namespace = false);
  void check_target(const Expression& target, bool with_namespace) const;
  void check_no_loop(const Expression& target) const;
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_number();

  ExpressionPtr make(ExpressionKind kind, Position at, std::vector<ExpressionPtr> children = {});
  void set_depth(Expression& node) const;

  Tree& tree_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  unsigned nesting_ = 0;
  std::map<std::string, int, std::less<>> symbols_;
  std::vector<Macro*> macros_;  // macros whose bodies are being read
  int loops_ = 0;               // loops being read inside the innermost macro
  int all_loops_ = 0;           // likewise, also around macros and blocks
  bool lenient_ = false;        // an unknown filter here fails only when it runs
};

class Parser::Nesting {
 public:
  explicit Nesting(Parser& parser) : parser_(parser) {
    if (++parser_.nesting_ > kMaxNesting) {
      --parser_.nesting_;
      parser_.refuse(
          parser_.current().at,
          fmt::format("more than {} expressions and blocks are inside each other", kMaxNesting));
    }
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Parser& parser_;
};

}  // namespace lamina::jinja
