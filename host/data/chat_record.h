// Converts records of chat data to tokens with a loss mask.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_mask.h"
#include "core/json.h"
#include "data/reading.h"

namespace lamina::data {

struct ChatDocuments {
  std::vector<chat::MaskedTokens> documents;
  // The roles of messages in no document: those after the last answer, or all if none is trained.
  std::vector<std::string> skipped_roles;
};

// Reads one record in any of these forms; `place` is "FILE:LINE", for errors:
//   {"messages": [{"role": "user", "content": ".."}, ..], "tools": ..}
//   {"conversations": [{"from": "human", "value": ".."}, ..], "system": ".."}     ShareGPT
//   {"instruction": "..", "input": "..", "output": "..", "system": ".."}          Alpaca
//   {"prompt": "..", "completion": ".."}               texts, without a template
//   {"prompt": [messages], "completion": [messages]}
// A "prompt" without a "completion" is ignored in the other forms: data sets of conversations have
// one for other uses. A message may exclude itself from the loss: "weight": 0 or "train": false;
// see chat::is_learned(). "tools" (a list, or JSON in a string), "documents" and the members of
// "chat_template_kwargs" are passed to the template. Errors (class data or usage): the record has
// none of these forms; the template rejects it.
ChatDocuments read_chat_record(const JsonValue& record, const std::string& place,
                               const Reading& reading);

// Returns a member of a record, or nothing. Formats in columns give every record all members, so
// null means that it is absent.
JsonValue member_of(const JsonValue& record, std::string_view key);

// A prompt and its completion, which is in the loss. Both are texts that bypass the template,
// followed by the end of text.
chat::MaskedTokens completion_of_texts(std::string_view prompt, std::string_view completion,
                                       const Reading& reading);
// A prompt and its completion as messages. `record` has the other inputs of the template.
chat::MaskedTokens completion_of_messages(const std::vector<JsonValue>& prompt,
                                          const std::vector<JsonValue>& completion,
                                          const JsonValue& record, const std::string& place,
                                          const Reading& reading);

}  // namespace lamina::data
