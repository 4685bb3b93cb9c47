#include "jinja/parse/parser.h"

#include <algorithm>

namespace lamina::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::block_end:
      return "the end of the statement";
    case TokenType::variable_end:
      return "the end of the expression";
    case TokenType::end:
      return "the end of the template";
    case TokenType::string:
      return "a string";
    case TokenType::data:
    case TokenType::block_begin:
    case TokenType::variable_begin:
      return "text";
    default:
      return fmt::format("'{}'", token.word);
  }
}

}  // namespace

Parser::Parser(Tree& tree) : tree_(tree), tokens_(tokenize(tree.source)) {
  TokenType before = TokenType::end;
  for (const Token& token : tokens_) {
    if (token.type == TokenType::string && before == TokenType::string)
      tree.own_text.back() += to_utf8(token.text);  // adjacent strings are one
    else if (token.type == TokenType::string || token.type == TokenType::data)
      tree.own_text.push_back(to_utf8(token.text));
    before = token.type;
  }
  for (const char* name : {"loop", "varargs", "kwargs", "caller"}) symbol(name);
}

const Token& Parser::next() {
  const Token& token = tokens_[at_];
  if (token.type != TokenType::end) ++at_;
  return token;
}

bool Parser::at_op(std::string_view op, std::size_t ahead) const {
  const std::size_t at = at_ + ahead;
  return at < tokens_.size() && tokens_[at].type == TokenType::op && tokens_[at].word == op;
}

bool Parser::at_word(std::string_view word, std::size_t ahead) const {
  const std::size_t at = at_ + ahead;
  return at < tokens_.size() && tokens_[at].type == TokenType::name && tokens_[at].word == word;
}

bool Parser::at_any(Words words) const {
  return std::any_of(words.begin(), words.end(),
                     [this](std::string_view word) { return at_word(word); });
}

bool Parser::skip_op(std::string_view op) {
  const bool found = at_op(op);
  if (found) next();
  return found;
}

bool Parser::skip_word(std::string_view word) {
  const bool found = at_word(word);
  if (found) next();
  return found;
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) refuse_token(fmt::format("'{}'", op));
}

void Parser::expect_word(std::string_view word) {
  if (!skip_word(word)) refuse_token(fmt::format("'{}'", word));
}

std::string Parser::expect_name() {
  if (current().type != TokenType::name) refuse_token("a name");
  return next().word;
}

void Parser::refuse(Position at, std::string message) const {
  throw SyntaxFailure{at, std::move(message)};
}

void Parser::refuse_token(std::string_view expected) const {
  refuse(current().at, fmt::format("got {}; expected {}", describe(current()), expected));
}

int Parser::symbol(const std::string& name) {
  const auto [known, is_new] = symbols_.emplace(name, static_cast<int>(tree_.symbols.size()));
  if (is_new) tree_.symbols.push_back(name);
  return known->second;
}

ExpressionPtr Parser::make(ExpressionKind kind, Position at, std::vector<ExpressionPtr> children) {
  auto node = std::make_unique<Expression>(Expression{.kind = kind, .at = at});
  node->children = std::move(children);
  set_depth(*node);
  return node;
}

// Chains of operators lean to one side without recursion in the parser.
void Parser::set_depth(Expression& node) const {
  const auto count = [&node](const ExpressionPtr& child) {
    if (child) node.depth = std::max(node.depth, child->depth + 1);
  };
  for (const ExpressionPtr& child : node.children) count(child);
  for (const auto& [name, child] : node.named) count(child);
  count(node.more_positional);
  count(node.more_named);
  if (node.depth > 2 * kMaxNesting)
    refuse(node.at, fmt::format("an expression has more than {} levels", 2 * kMaxNesting));
}

Tree parse(TextView source) {
  if (source.size() > kMaxSource)
    throw SyntaxFailure{
        0, fmt::format("has {} characters; a template may have {}", source.size(), kMaxSource)};
  Tree tree;
  tree.source = normalize_newlines(source);
  tree.body = Parser(tree).parse_template();
  return tree;
}

}  // namespace lamina::jinja
