// Records of chat data as tokens with a mask.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_mask.h"
#include "core/json.h"
#include "data/reading.h"

namespace lamina::data {

// One record in any of the forms that are in use; `place` is "FILE:LINE", for errors:
//   {"messages": [{"role": "user", "content": ".."}, ..], "tools": ..}
//   {"conversations": [{"from": "human", "value": ".."}, ..], "system": ".."}     ShareGPT
//   {"instruction": "..", "input": "..", "output": "..", "system": ".."}          Alpaca
//   {"prompt": "..", "completion": ".."}               texts, which no template sees
//   {"prompt": [messages], "completion": [messages]}
// A message may say that it is not learned: "weight": 0 or "train": false; see chat::is_learned().
// "tools" (a list, or JSON in a text), "documents" and the members of "chat_template_kwargs" are
// for the template. Errors (class data or usage): none of these; what the template refuses.
std::vector<chat::MaskedTokens> read_chat_record(const JsonValue& record, const std::string& place,
                                                 const Reading& reading);

// A prompt and what follows it, of which the latter is learned: texts, which no template sees, with
// the end of text after them.
chat::MaskedTokens completion_of_texts(std::string_view prompt, std::string_view completion,
                                       const Reading& reading);
// Messages. `record` has what the template sees beside them.
chat::MaskedTokens completion_of_messages(const std::vector<JsonValue>& prompt,
                                          const std::vector<JsonValue>& completion,
                                          const JsonValue& record, const std::string& place,
                                          const Reading& reading);

}  // namespace lamina::data
