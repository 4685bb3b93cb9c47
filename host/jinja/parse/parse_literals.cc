// Parses literals, tuples, and the targets of assignments.
#include <charconv>
#include <cstdlib>

#include "jinja/parse/parser.h"

namespace lamina::jinja {
namespace {

// The value of "0x1F" or "17"; throws Failure if it is too large.
Integer read_integer(std::string_view digits) {
  Integer base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    if (base != 10) digits.remove_prefix(2);
  }
  Integer value = 0;
  for (const char c : digits) {
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value))
      fail("the integer has more than 127 bits");
  }
  return value;
}

}  // namespace

ExpressionPtr Parser::parse_number() {
  const Token& token = next();
  ExpressionPtr node = make(ExpressionKind::literal, token.at);
  if (token.type == TokenType::real) {
    double value = 0;
    const auto read =
        std::from_chars(token.word.data(), token.word.data() + token.word.size(), value);
    if (read.ec == std::errc::result_out_of_range) value = std::strtod(token.word.c_str(), nullptr);
    node->literal = TemplateValue::real(value);
    return node;
  }
  try {
    node->literal = TemplateValue::integer(read_integer(token.word));
  } catch (const TemplateFailure& failure) {
    refuse(token.at, failure.message);
  }
  return node;
}

ExpressionPtr Parser::parse_primary(bool is_target) {
  const Token& token = current();
  ExpressionPtr node;
  if (token.type == TokenType::name) {
    next();
    const std::string& word = token.word;
    node = make(ExpressionKind::literal, token.at);
    if (word == "true" || word == "True") {
      node->literal = TemplateValue::boolean(true);
    } else if (word == "false" || word == "False") {
      node->literal = TemplateValue::boolean(false);
    } else if (word == "none" || word == "None") {
      node->literal = TemplateValue::none();
    } else {
      node->kind = ExpressionKind::name;
      node->symbol = symbol(word);
      if (is_target && skip_op(".")) {
        node->kind = ExpressionKind::namespace_ref;
        node->name = expect_name();
      }
      for (Macro* macro : macros_) {
        macro->uses_varargs |= word == "varargs";
        macro->uses_kwargs |= word == "kwargs";
        macro->uses_caller |= word == "caller";
      }
    }
  } else if (token.type == TokenType::string) {
    Text text;
    while (current().type == TokenType::string) text += next().text;
    node = make(ExpressionKind::literal, token.at);
    node->literal = TemplateValue::string(std::move(text));
  } else if (token.type == TokenType::integer || token.type == TokenType::real) {
    node = parse_number();
  } else if (skip_op("(")) {
    node = parse_tuple(Items::expressions, true);
    expect_op(")");
  } else if (at_op("[")) {
    node = parse_list();
  } else if (at_op("{")) {
    node = parse_dict();
  } else {
    refuse_token("an expression");
  }
  return node;
}

ExpressionPtr Parser::parse_tuple(Items kind, bool in_parentheses, std::string_view end_word) {
  const Nesting nesting(*this);
  const Position at = current().at;
  const auto ends = [&] {
    return current().type == TokenType::variable_end || current().type == TokenType::block_end ||
           at_op(")") || (!end_word.empty() && at_word(end_word));
  };
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect_op(",");
    if (ends()) break;
    items.push_back(kind == Items::targets           ? parse_primary(true)
                    : kind == Items::no_conditionals ? parse_or()
                                                     : parse_expression());
    if (!at_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!in_parentheses) refuse_token("an expression");
  }
  return make(ExpressionKind::tuple, at, std::move(items));
}

ExpressionPtr Parser::parse_target(std::string_view end_word, bool with_namespace) {
  ExpressionPtr target = parse_tuple(Items::targets, false, end_word);
  check_target(*target, with_namespace);
  if (all_loops_ > 0) check_no_loop(*target);
  return target;
}

void Parser::check_no_loop(const Expression& target) const {
  if (target.kind == ExpressionKind::name && target.symbol == kLoop)
    refuse(target.at, "'loop' cannot be assigned to inside a loop; use another name");
  for (const ExpressionPtr& item : target.children) check_no_loop(*item);
}

void Parser::check_target(const Expression& target, bool with_namespace) const {
  if (target.kind == ExpressionKind::name) return;
  if (target.kind == ExpressionKind::namespace_ref && with_namespace) return;
  if (target.kind != ExpressionKind::tuple)
    refuse(target.at, "cannot be assigned to; expected a name");
  for (const ExpressionPtr& item : target.children) check_target(*item, with_namespace);
}

ExpressionPtr Parser::parse_list() {
  const Position at = next().at;
  std::vector<ExpressionPtr> items;
  while (!at_op("]")) {
    if (!items.empty()) expect_op(",");
    if (at_op("]")) break;
    items.push_back(parse_expression());
  }
  expect_op("]");
  return make(ExpressionKind::list, at, std::move(items));
}

ExpressionPtr Parser::parse_dict() {
  const Position at = next().at;
  std::vector<ExpressionPtr> items;
  while (!at_op("}")) {
    if (!items.empty()) expect_op(",");
    if (at_op("}")) break;
    items.push_back(parse_expression());
    expect_op(":");
    items.push_back(parse_expression());
  }
  expect_op("}");
  return make(ExpressionKind::dict, at, std::move(items));
}

}  // namespace lamina::jinja
