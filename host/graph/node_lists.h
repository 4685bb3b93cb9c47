// Lists inside a node. Passes copy every node and change few of them, so copies must be cheap.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "graph/op.h"

namespace lamina {

using ValueId = std::uint32_t;

// Ids of values. A few of them are stored inline.
class ValueList {
 public:
  ValueList() = default;
  ValueList(std::initializer_list<ValueId> ids) {
    for (ValueId id : ids) push_back(id);
  }

  void push_back(ValueId id) {
    if (size_ < few_.size()) {
      few_[size_] = id;
    } else {
      if (size_ == few_.size()) many_.assign(few_.begin(), few_.end());
      many_.push_back(id);
    }
    ++size_;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const ValueId* data() const { return size_ <= few_.size() ? few_.data() : many_.data(); }
  const ValueId* begin() const { return data(); }
  const ValueId* end() const { return data() + size_; }
  ValueId operator[](std::size_t i) const { return data()[i]; }
  ValueId front() const { return data()[0]; }
  ValueId back() const { return data()[size_ - 1]; }

  friend bool operator==(const ValueList& a, const ValueList& b) {
    return std::ranges::equal(a, b);
  }

 private:
  std::uint32_t size_ = 0;
  std::array<ValueId, 5> few_{};
  std::vector<ValueId> many_;  // all ids if they do not fit inline
};

// Values of attributes, in the op's order. Copies share them.
class AttrList {
 public:
  AttrList() = default;
  explicit AttrList(std::vector<AttrValue> values)
      : values_(values.empty()
                    ? nullptr
                    : std::make_shared<const std::vector<AttrValue>>(std::move(values))) {}

  std::size_t size() const { return values_ ? values_->size() : 0; }
  const AttrValue* data() const { return values_ ? values_->data() : nullptr; }
  const AttrValue* begin() const { return data(); }
  const AttrValue* end() const { return data() + size(); }
  const AttrValue& operator[](std::size_t i) const { return (*values_)[i]; }

  // Returns these values with one of them replaced.
  AttrList with(std::size_t i, AttrValue value) const {
    std::vector<AttrValue> out(begin(), end());
    out[i] = std::move(value);
    return AttrList(std::move(out));
  }

  // Equality of meaning, see same_attr().
  friend bool same_attrs(const AttrList& a, const AttrList& b) {
    return a.values_ == b.values_ ||
           (a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same_attr));
  }

 private:
  std::shared_ptr<const std::vector<AttrValue>> values_;  // null if empty
};

}  // namespace lamina
