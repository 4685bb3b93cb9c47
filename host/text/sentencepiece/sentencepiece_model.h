// The models of SentencePiece (Kudo & Richardson 2018), BPE and Unigram, computed as in the
// library: pieces are merged by score, numbers have 32 bits, user-defined pieces always count.
#pragma once

#include <memory>
#include <vector>

#include "text/model.h"
#include "text/sentencepiece/sentencepiece_file.h"

namespace lamina::text {

// `path` is for errors (class checkpoint): a duplicate piece.
std::unique_ptr<WordModel> make_sentencepiece_model(const SentencePieceFile& file,
                                                    const std::string& path);

}  // namespace lamina::text
