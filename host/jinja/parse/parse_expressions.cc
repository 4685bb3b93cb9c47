// Parses expressions, from the loosest operators to the tightest. The order is Jinja's, which has
// surprises: "**" groups to the left, and a sign binds tighter than it.
#include "jinja/library/library.h"
#include "jinja/parse/parser.h"

namespace lamina::jinja {

namespace {

std::vector<ExpressionPtr> nodes(ExpressionPtr a, ExpressionPtr b = {}, ExpressionPtr c = {}) {
  std::vector<ExpressionPtr> out;
  out.push_back(std::move(a));
  if (b) out.push_back(std::move(b));
  if (c) out.push_back(std::move(c));
  return out;
}

}  // namespace

ExpressionPtr Parser::parse_expression() {
  const Nesting nesting(*this);
  const Position at = current().at;
  const bool lenient = lenient_;
  ExpressionPtr value = parse_or();
  while (skip_word("if")) {
    lenient_ = true;
    ExpressionPtr condition = parse_or();
    ExpressionPtr otherwise = skip_word("else") ? parse_expression() : nullptr;
    lenient_ = lenient;
    value = make(ExpressionKind::conditional, at,
                 nodes(std::move(value), std::move(condition), std::move(otherwise)));
  }
  return value;
}

ExpressionPtr Parser::parse_or() {
  ExpressionPtr left = parse_and();
  while (at_word("or")) {
    const Position at = next().at;
    left = make(ExpressionKind::logical_or, at, nodes(std::move(left), parse_and()));
  }
  return left;
}

ExpressionPtr Parser::parse_and() {
  ExpressionPtr left = parse_not();
  while (at_word("and")) {
    const Position at = next().at;
    left = make(ExpressionKind::logical_and, at, nodes(std::move(left), parse_not()));
  }
  return left;
}

ExpressionPtr Parser::parse_not() {
  if (!at_word("not")) return parse_compare();
  const Nesting nesting(*this);
  const Position at = next().at;
  return make(ExpressionKind::logical_not, at, nodes(parse_not()));
}

ExpressionPtr Parser::parse_compare() {
  const Position at = current().at;
  std::vector<ExpressionPtr> operands = nodes(parse_sum());
  std::vector<std::string> operators;
  for (;;) {
    std::string op;
    for (const std::string_view known : {"==", "!=", "<=", ">=", "<", ">"})
      if (at_op(known)) op = known;
    if (!op.empty()) {
      next();
    } else if (skip_word("in")) {
      op = "in";
    } else if (at_word("not") && at_word("in", 1)) {
      next();
      next();
      op = "not in";
    } else {
      break;
    }
    operators.push_back(op);
    operands.push_back(parse_sum());
  }
  if (operators.empty()) return std::move(operands[0]);
  ExpressionPtr node = make(ExpressionKind::compare, at, std::move(operands));
  node->operators = std::move(operators);
  return node;
}

ExpressionPtr Parser::parse_sum() {
  ExpressionPtr left = parse_concat();
  while (at_op("+") || at_op("-")) {
    const Token& op = next();
    left = make(ExpressionKind::arithmetic, op.at, nodes(std::move(left), parse_concat()));
    left->name = op.word;
  }
  return left;
}

ExpressionPtr Parser::parse_concat() {
  const Position at = current().at;
  std::vector<ExpressionPtr> parts = nodes(parse_product());
  while (skip_op("~")) parts.push_back(parse_product());
  if (parts.size() == 1) return std::move(parts[0]);
  return make(ExpressionKind::concat, at, std::move(parts));
}

ExpressionPtr Parser::parse_product() {
  ExpressionPtr left = parse_power();
  while (at_op("*") || at_op("/") || at_op("//") || at_op("%")) {
    const Token& op = next();
    left = make(ExpressionKind::arithmetic, op.at, nodes(std::move(left), parse_power()));
    left->name = op.word;
  }
  return left;
}

ExpressionPtr Parser::parse_power() {
  ExpressionPtr left = parse_unary();
  while (at_op("**")) {
    const Token& op = next();
    left = make(ExpressionKind::arithmetic, op.at, nodes(std::move(left), parse_unary()));
    left->name = op.word;
  }
  return left;
}

ExpressionPtr Parser::parse_unary(bool with_filter) {
  const Nesting nesting(*this);
  ExpressionPtr node;
  if (at_op("-") || at_op("+")) {
    const Token& sign = next();
    node = make(sign.word == "-" ? ExpressionKind::negative : ExpressionKind::positive, sign.at,
                nodes(parse_unary(false)));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr of) {
  for (;;) {
    if (at_op(".") || at_op("["))
      of = parse_subscript(std::move(of));
    else if (at_op("("))
      of = parse_call(std::move(of));
    else
      return of;
  }
}

ExpressionPtr Parser::parse_filters_and_tests(ExpressionPtr of) {
  for (;;) {
    if (skip_op("|"))
      of = parse_filter(std::move(of));
    else if (at_word("is"))
      of = parse_test(std::move(of));
    else if (at_op("("))
      of = parse_call(std::move(of));
    else
      return of;
  }
}

ExpressionPtr Parser::parse_filters(ExpressionPtr of) {
  while (skip_op("|")) of = parse_filter(std::move(of));
  return of;
}

ExpressionPtr Parser::parse_filter(ExpressionPtr of) {
  const Position at = current().at;
  std::string name = expect_name();
  while (skip_op(".")) name += "." + expect_name();
  ExpressionPtr node = make(ExpressionKind::filter, at, nodes(std::move(of)));
  node->name = name;
  node->filter = find_filter(name);
  if (!node->filter && !lenient_) refuse(at, describe_unknown_filter(name));
  if (at_op("(")) parse_arguments(*node);
  return node;
}

ExpressionPtr Parser::parse_test(ExpressionPtr of) {
  next();
  const bool negated = skip_word("not");
  const Position at = current().at;
  std::string name = expect_name();
  while (skip_op(".")) name += "." + expect_name();
  ExpressionPtr node = make(ExpressionKind::test, at, nodes(std::move(of)));
  node->name = name;
  node->test = find_test(name);
  if (!node->test && !lenient_) refuse(at, describe_unknown_test(name));
  if (at_op("(")) {
    parse_arguments(*node);
  } else if (const TokenType type = current().type;
             (type == TokenType::name && !at_any({"else", "or", "and"})) ||
             type == TokenType::string || type == TokenType::integer || type == TokenType::real ||
             at_op("[") || at_op("{")) {
    if (at_word("is")) refuse(current().at, "tests cannot follow each other with 'is'; use 'and'");
    node->children.push_back(parse_postfix(parse_primary()));
    set_depth(*node);
  }
  return negated ? make(ExpressionKind::logical_not, at, nodes(std::move(node))) : std::move(node);
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr of) {
  const Token& begin = next();
  if (begin.word == ".") {
    if (current().type == TokenType::name) {
      ExpressionPtr node = make(ExpressionKind::attribute, begin.at, nodes(std::move(of)));
      node->name = next().word;
      return node;
    }
    if (current().type != TokenType::integer) refuse_token("a name or a number");
    ExpressionPtr index = parse_number();
    return make(ExpressionKind::item, begin.at, nodes(std::move(of), std::move(index)));
  }
  std::vector<ExpressionPtr> indices;
  std::vector<ExpressionPtr> slice;
  while (!at_op("]")) {
    if (!indices.empty()) expect_op(",");
    ExpressionPtr first = at_op(":") ? nullptr : parse_expression();
    if (!skip_op(":")) {
      indices.push_back(std::move(first));
      continue;
    }
    slice.push_back(std::move(first));
    const auto absent = [this] { return at_op(":") || at_op("]") || at_op(","); };
    slice.push_back(absent() ? nullptr : parse_expression());
    slice.push_back(skip_op(":") && !absent() ? parse_expression() : nullptr);
    if (!at_op("]") || !indices.empty())
      refuse(begin.at, "a slice has one part; tuples of slices mean nothing here");
    break;
  }
  expect_op("]");
  if (!slice.empty()) {
    slice.insert(slice.begin(), std::move(of));
    return make(ExpressionKind::slice, begin.at, std::move(slice));
  }
  ExpressionPtr index = indices.size() == 1
                            ? std::move(indices[0])
                            : make(ExpressionKind::tuple, begin.at, std::move(indices));
  return make(ExpressionKind::item, begin.at, nodes(std::move(of), std::move(index)));
}

ExpressionPtr Parser::parse_call(ExpressionPtr of) {
  const Position at = of->at;
  ExpressionPtr node = make(ExpressionKind::call, at, nodes(std::move(of)));
  parse_arguments(*node);
  return node;
}

void Parser::parse_arguments(Expression& call) {
  const Position at = current().at;
  const auto require = [&](bool fine) {
    if (!fine) refuse(at, "the arguments are out of order; expected (a, b, name=c, *d, **e)");
  };
  expect_op("(");
  for (bool first = true; !at_op(")"); first = false) {
    if (!first) {
      expect_op(",");
      if (at_op(")")) break;
    }
    if (skip_op("*")) {
      require(!call.more_positional && !call.more_named);
      call.more_positional = parse_expression();
    } else if (skip_op("**")) {
      require(!call.more_named);
      call.more_named = parse_expression();
    } else if (current().type == TokenType::name && at_op("=", 1)) {
      require(!call.more_named);
      std::string name = next().word;
      next();
      call.named.emplace_back(std::move(name), parse_expression());
    } else {
      require(!call.more_positional && !call.more_named && call.named.empty());
      call.children.push_back(parse_expression());
    }
  }
  expect_op(")");
  set_depth(call);
}

}  // namespace lamina::jinja
