// A template as a tree, built by the parser and walked by the interpreter.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/parse/lexer.h"
#include "jinja/values/value.h"

namespace lamina::jinja {

struct Filter;
struct Test;
struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Body = std::vector<std::unique_ptr<Statement>>;

enum class ExpressionKind : std::uint8_t {
  literal,
  name,       // symbol
  attribute,  // children[0].name
  item,       // children[0][children[1]]
  slice,      // children[0][children[1]:children[2]:children[3]], any of the three may be null
  call,       // children[0](children[1]..., named)
  filter,     // children[0] | name(children[1]..., named); children[0] null: of a block
  test,       // children[0] is name(children[1]..., named)
  negative,
  positive,
  logical_not,
  arithmetic,  // children[0] name children[1]
  logical_and,
  logical_or,
  compare,      // children[0] operators[0] children[1] operators[1] children[2] ...
  conditional,  // children[0] if children[1] else children[2], which may be null
  concat,       // children joined by ~
  list,
  tuple,
  dict,           // key, value, key, value ...
  namespace_ref,  // a target: symbol.name
};

struct Expression {
  ExpressionKind kind;
  Position at;
  unsigned depth = 1;
  int symbol = -1;
  std::string name = {};
  TemplateValue literal = {};
  std::vector<ExpressionPtr> children = {};
  std::vector<std::string> operators = {};
  std::vector<std::pair<std::string, ExpressionPtr>> named = {};
  ExpressionPtr more_positional = {}, more_named = {};  // *args, **kwargs
  const Filter* filter = nullptr;  // null: unknown name, an error only when it runs
  const Test* test = nullptr;
};

// The common part of a macro, a block and the body of a call block.
struct Macro {
  std::string name;
  std::vector<std::pair<int, std::string>> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

enum class StatementKind : std::uint8_t {
  data,          // text
  print,         // expression
  conditional,   // branches, otherwise
  loop,          // target in expression if filter: body, otherwise
  set,           // target = expression
  set_block,     // target = body, through the filters of expression
  macro,         // symbol
  call,          // expression with the macro as caller
  filter_block,  // body through expression
  with,          // targets = values: body
  block,         // body of the macro, with its own variables; it sees those at the template's top
  scoped_block,  // likewise; it sees all variables
  autoescape,    // body, with its own variables; expression is the switch
  generation,    // likewise; text that an assistant writes
  break_loop,
  next_iteration,
};

struct Statement {
  StatementKind kind;
  Position at;
  Text text = {};
  int symbol = -1;
  ExpressionPtr target = {}, expression = {}, filter = {};
  bool recursive = false;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> variables = {};  // of with
  std::vector<std::pair<ExpressionPtr, Body>> branches = {};            // of conditional
  Body body = {}, otherwise = {};
  std::unique_ptr<Macro> macro = {};
};

// Variables that the interpreter sets have the same symbol in every tree.
enum KnownSymbol { kLoop, kVarargs, kKwargs, kCaller, kNumKnownSymbols };

// A whole template.
struct Tree {
  Text source;  // normalized
  Body body;
  std::vector<std::string> symbols;   // names of variables
  std::vector<std::string> own_text;  // the text between tags, and all strings inside tags
  std::vector<const Macro*> blocks;
};

// Throws SyntaxFailure.
Tree parse(TextView source);

}  // namespace lamina::jinja
