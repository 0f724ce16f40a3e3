#include "server/config_value.h"

#include <gtest/gtest.h>

#include <map>

namespace tidemark {
namespace {

std::optional<std::string> Lookup(const std::string& name) {
  static const std::map<std::string, std::string> kVariables = {
      {"USER", "ada"}, {"EMPTY", ""}, {"NESTED", "${USER}"}};
  const auto found = kVariables.find(name);
  if (found == kVariables.end()) return std::nullopt;
  return found->second;
}

TEST(ConfigValue, DurationsHaveAUnit) {
  EXPECT_EQ(ParseDuration("500ms").value(), absl::Milliseconds(500));
  EXPECT_EQ(ParseDuration("30s").value(), absl::Seconds(30));
  EXPECT_EQ(ParseDuration("5m").value(), absl::Minutes(5));
  EXPECT_EQ(ParseDuration("12h").value(), absl::Hours(12));
  EXPECT_EQ(ParseDuration("7d").value(), absl::Hours(7 * 24));
  for (const char* bad : {"", "7", "d", "7 d", "-1s", "1.5h", "7days", "1S", "0x1s", "1s ",
                          "99999999999999999999s", "9007199254740992d"}) {
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  }
}

TEST(ConfigValue, ByteSizesHaveAUnit) {
  EXPECT_EQ(ParseByteSize("100B").value(), 100u);
  EXPECT_EQ(ParseByteSize("512KiB").value(), 512u << 10);
  EXPECT_EQ(ParseByteSize("64MiB").value(), 64u << 20);
  EXPECT_EQ(ParseByteSize("10GiB").value(), uint64_t{10} << 30);
  EXPECT_EQ(ParseByteSize("1TiB").value(), uint64_t{1} << 40);
  for (const char* bad : {"", "10", "GiB", "10GB", "10 GiB", "-1B", "1.5GiB", "10gib",
                          "9999999999TiB", "18446744073709551616B"}) {
    EXPECT_FALSE(ParseByteSize(bad).ok()) << bad;
  }
}

TEST(ConfigValue, UnsignedNumbersAreDigitsInRange) {
  EXPECT_EQ(ParseUnsigned("0", 10).value(), 0u);
  EXPECT_EQ(ParseUnsigned("10", 10).value(), 10u);
  for (const char* bad : {"", "11", "-1", "+1", "1.0", "1e3", "0x1", " 1", "1 "}) {
    EXPECT_FALSE(ParseUnsigned(bad, 10).ok()) << bad;
  }
}

TEST(ConfigValue, OnlyTrueAndFalseAreTruthValues) {
  EXPECT_TRUE(ParseBool("true").value());
  EXPECT_FALSE(ParseBool("false").value());
  for (const char* bad : {"", "yes", "True", "1", "on"}) EXPECT_FALSE(ParseBool(bad).ok()) << bad;
}

TEST(ConfigValue, EnvironmentIsExpandedOnce) {
  EXPECT_EQ(ExpandEnvironment("plain", Lookup).value(), "plain");
  EXPECT_EQ(ExpandEnvironment("${USER}", Lookup).value(), "ada");
  EXPECT_EQ(ExpandEnvironment("a${USER}b${USER}", Lookup).value(), "aadabada");
  EXPECT_EQ(ExpandEnvironment("${EMPTY}", Lookup).value(), "");
  EXPECT_EQ(ExpandEnvironment("${NESTED}", Lookup).value(), "${USER}");
  EXPECT_EQ(ExpandEnvironment("$${USER}", Lookup).value(), "${USER}");
  EXPECT_EQ(ExpandEnvironment("$USER $ {", Lookup).value(), "$USER $ {");
}

TEST(ConfigValue, EnvironmentErrorsNameTheVariable) {
  EXPECT_EQ(ExpandEnvironment("${MISSING}", Lookup).status().message(),
            "the environment variable MISSING is not set");
  for (const char* bad : {"${", "${}", "${USER", "${a b}", "${1A}"}) {
    EXPECT_EQ(ExpandEnvironment(bad, Lookup).status().message(),
              "expects ${NAME}, the name of an environment variable ($${ for a plain ${)")
        << bad;
  }
}

}  // namespace
}  // namespace tidemark
