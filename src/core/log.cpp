#include "core/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <utility>

namespace adaptra {

Log::Log(Role role, std::string where) : role_(role), where_(std::move(where)) {
  // Not registered with spdlog: the logger lives as long as the Log and its copies.
  out_ = std::make_shared<spdlog::logger>("adaptra",
                                          std::make_shared<spdlog::sinks::stdout_sink_mt>());
  out_->set_pattern("%v");
  out_->flush_on(spdlog::level::info);
  err_ = std::make_shared<spdlog::logger>("adaptra",
                                          std::make_shared<spdlog::sinks::stderr_sink_mt>());
  err_->set_pattern("%l: %v");
  err_->flush_on(spdlog::level::warn);
}

void Log::write_info(const std::string& line) const {
  out_->info(line);
}
void Log::write_warning(const std::string& line) const {
  err_->warn(line);
}
void Log::write_error(const std::string& line) const {
  err_->error(line);
}

}  // namespace adaptra
