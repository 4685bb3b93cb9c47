// Parses statements (between "{%" and "%}") and the text around them.
#include <fmt/ranges.h>

#include "jinja/parse/parser.h"

namespace lamina::jinja {
namespace {

std::unique_ptr<Statement> make_statement(StatementKind kind, Position at) {
  return std::make_unique<Statement>(Statement{.kind = kind, .at = at});
}

}  // namespace

Body Parser::parse_template() { return parse_body({}, 0, ""); }

Body Parser::parse_body(Words ends, Position opened, std::string_view tag) {
  const Nesting nesting(*this);
  Body body;
  for (;;) {
    const Token& token = current();
    if (token.type == TokenType::end) {
      if (ends.size() == 0) return body;
      refuse(opened, fmt::format("'{}' begins here and has no end; expected '{}'", tag,
                                 fmt::join(ends, "' or '")));
    }
    next();
    if (token.type == TokenType::data) {
      body.push_back(make_statement(StatementKind::data, token.at));
      body.back()->text = token.text;
    } else if (token.type == TokenType::variable_begin) {
      body.push_back(make_statement(StatementKind::print, token.at));
      body.back()->expression = parse_tuple(Items::expressions);
      if (current().type != TokenType::variable_end) refuse_token("'}}'");
      next();
    } else {
      if (ends.size() && at_any(ends)) return body;
      body.push_back(parse_statement());
      if (current().type != TokenType::block_end) refuse_token("'%}'");
      next();
    }
  }
}

// The body of a tag that has just been read, and the tag that ends it: its word is read, its "%}"
// is not.
Body Parser::parse_to_end(std::string_view tag, Position at) {
  skip_op(":");
  if (current().type != TokenType::block_end) refuse_token("'%}'");
  next();
  const std::string end = fmt::format("end{}", tag);
  Body body = parse_body({end}, at, tag);
  next();
  return body;
}

Body Parser::parse_inner(std::string_view tag, Position at) {
  const bool lenient = std::exchange(lenient_, false);
  Body body = parse_to_end(tag, at);
  lenient_ = lenient;
  return body;
}

std::unique_ptr<Statement> Parser::parse_statement() {
  const Position at = current().at;
  if (current().type != TokenType::name) refuse_token("a statement");
  const std::string tag = current().word;
  if (tag == "if") return parse_if();
  if (tag == "for") return parse_for();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call_block();
  if (tag == "filter") return parse_filter_block();
  if (tag == "with") return parse_with();
  if (tag == "print") {
    next();
    auto statement = make_statement(StatementKind::print, at);
    statement->expression = parse_tuple(Items::expressions);
    return statement;
  }
  if (tag == "generation") return parse_scoped(StatementKind::generation);
  if (tag == "autoescape") return parse_scoped(StatementKind::autoescape);
  if (tag == "block") return parse_block();
  if (tag == "break" || tag == "continue") return parse_loop_control();
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends")
    refuse(at, fmt::format("'{}' reads other templates; a chat template is one file", tag));
  refuse(at, fmt::format("there is no statement '{}'", tag));
}

std::unique_ptr<Statement> Parser::parse_if() {
  auto statement = make_statement(StatementKind::conditional, current().at);
  const bool lenient = std::exchange(lenient_, true);
  const Position at = next().at;
  for (;;) {
    ExpressionPtr condition = parse_tuple(Items::no_conditionals);
    skip_op(":");
    if (current().type != TokenType::block_end) refuse_token("'%}'");
    next();
    Body body = parse_body({"elif", "else", "endif"}, at, "if");
    statement->branches.emplace_back(std::move(condition), std::move(body));
    const std::string word = next().word;
    if (word == "elif") continue;
    if (word == "else") statement->otherwise = parse_to_end("if", at);
    break;
  }
  lenient_ = lenient;
  return statement;
}

std::unique_ptr<Statement> Parser::parse_for() {
  auto statement = make_statement(StatementKind::loop, current().at);
  const Position at = next().at;
  const bool lenient = std::exchange(lenient_, false);
  ++all_loops_;
  statement->target = parse_target("in");
  expect_word("in");
  statement->expression = parse_tuple(Items::no_conditionals, false, "recursive");
  if (skip_word("if")) statement->filter = parse_expression();
  statement->recursive = skip_word("recursive");
  skip_op(":");
  if (current().type != TokenType::block_end) refuse_token("'%}'");
  next();
  ++loops_;
  statement->body = parse_body({"endfor", "else"}, at, "for");
  --loops_;
  if (next().word == "else") statement->otherwise = parse_to_end("for", at);
  --all_loops_;
  lenient_ = lenient;
  return statement;
}

std::unique_ptr<Statement> Parser::parse_set() {
  const Position at = next().at;
  auto statement = make_statement(StatementKind::set, at);
  statement->target = parse_target({}, true);
  if (skip_op("=")) {
    statement->expression = parse_tuple(Items::expressions);
    return statement;
  }
  statement->kind = StatementKind::set_block;
  statement->expression = parse_filters(nullptr);
  statement->body = parse_inner("set", at);
  return statement;
}

void Parser::parse_signature(Macro& macro) {
  expect_op("(");
  while (!at_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    const std::string name = expect_name();
    macro.parameters.emplace_back(symbol(name), name);
    if (skip_op("="))
      macro.defaults.push_back(parse_expression());
    else if (!macro.defaults.empty())
      refuse(current().at,
             fmt::format("parameter '{}' has no default, but one before it has", name));
  }
  expect_op(")");
}

// Loops around a macro do not count inside it.
void Parser::parse_macro_body(Macro& macro, std::string_view tag, Position at) {
  macros_.push_back(&macro);
  const int loops = std::exchange(loops_, 0);
  macro.body = parse_inner(tag, at);
  loops_ = loops;
  macros_.pop_back();
}

std::unique_ptr<Statement> Parser::parse_macro() {
  const Position at = next().at;
  auto statement = make_statement(StatementKind::macro, at);
  statement->macro = std::make_unique<Macro>();
  statement->macro->name = expect_name();
  statement->symbol = symbol(statement->macro->name);
  parse_signature(*statement->macro);
  parse_macro_body(*statement->macro, "macro", at);
  return statement;
}

std::unique_ptr<Statement> Parser::parse_call_block() {
  const Position at = next().at;
  auto statement = make_statement(StatementKind::call, at);
  statement->macro = std::make_unique<Macro>();
  statement->macro->name = "caller";
  if (at_op("(")) parse_signature(*statement->macro);
  statement->expression = parse_expression();
  if (statement->expression->kind != ExpressionKind::call)
    refuse(at, "a call block needs a call, eg {% call f() %}");
  parse_macro_body(*statement->macro, "call", at);
  return statement;
}

std::unique_ptr<Statement> Parser::parse_filter_block() {
  const Position at = next().at;
  auto statement = make_statement(StatementKind::filter_block, at);
  statement->expression = parse_filters(parse_filter(nullptr));
  statement->body = parse_inner("filter", at);
  return statement;
}

std::unique_ptr<Statement> Parser::parse_with() {
  const Position at = next().at;
  auto statement = make_statement(StatementKind::with, at);
  while (current().type != TokenType::block_end) {
    if (!statement->variables.empty()) expect_op(",");
    ExpressionPtr target = parse_primary(true);
    check_target(*target, false);
    expect_op("=");
    statement->variables.emplace_back(std::move(target), parse_expression());
  }
  statement->body = parse_inner("with", at);
  return statement;
}

std::unique_ptr<Statement> Parser::parse_block() {
  const Position at = next().at;
  auto statement = make_statement(StatementKind::block, at);
  statement->macro = std::make_unique<Macro>();
  statement->macro->name = expect_name();
  for (const Macro* block : tree_.blocks)
    if (block->name == statement->macro->name)
      refuse(at, fmt::format("the block '{}' is defined twice", block->name));
  tree_.blocks.push_back(statement->macro.get());
  if (skip_word("scoped")) statement->kind = StatementKind::scoped_block;
  const int loops = std::exchange(loops_, 0);
  statement->macro->body = parse_inner("block", at);
  loops_ = loops;
  skip_word(statement->macro->name);
  return statement;
}

std::unique_ptr<Statement> Parser::parse_scoped(StatementKind kind) {
  const Token& tag = next();
  auto statement = make_statement(kind, tag.at);
  if (kind == StatementKind::autoescape) statement->expression = parse_expression();
  const int loops = std::exchange(loops_, kind == StatementKind::autoescape ? loops_ : 0);
  statement->body = parse_inner(tag.word, tag.at);
  loops_ = loops;
  return statement;
}

std::unique_ptr<Statement> Parser::parse_loop_control() {
  const Token& tag = next();
  if (loops_ == 0) refuse(tag.at, fmt::format("'{}' is not in a loop", tag.word));
  return make_statement(
      tag.word == "break" ? StatementKind::break_loop : StatementKind::next_iteration, tag.at);
}

}  // namespace lamina::jinja
