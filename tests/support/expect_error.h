// Checks the class, the exit code and the text of an error.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

// The statement must throw a lamina::UserError with this exit code and whole text.
#define EXPECT_USER_ERROR(statement, exit_code, text)                   \
  try {                                                                 \
    statement;                                                          \
    ADD_FAILURE() << "no error from " #statement;                       \
  } catch (const ::lamina::UserError& e) {                              \
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(exit_code)); \
    EXPECT_STREQ(e.what(), std::string(text).c_str());                  \
  }

// The same for any lamina::Error, and a part of the text.
#define EXPECT_ERROR_SAYS(statement, exit_code, part)                   \
  try {                                                                 \
    statement;                                                          \
    ADD_FAILURE() << "no error from " #statement;                       \
  } catch (const ::lamina::Error& e) {                                  \
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(exit_code)); \
    EXPECT_THAT(std::string(e.what()), ::testing::HasSubstr(part));     \
  }
