// What every communicator must do. A backend's test file defines a CommBackend,
// includes this header and instantiates the suite:
//
//   INSTANTIATE_TEST_SUITE_P(Threads, CommConformance,
//                            testing::Values(&kThreadsBackend));
#ifndef TP_TESTS_UNIT_COMM_CONFORMANCE_H_
#define TP_TESTS_UNIT_COMM_CONFORMANCE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "ir/status.h"
#include "runtime/comm/communicator.h"
#include "tests/unit/comm_checks.h"

namespace tp {

inline constexpr int kLargestWorld = 8;

class CommConformance : public testing::TestWithParam<const CommBackend*> {
 protected:
  static constexpr absl::Duration kTimeout = absl::Seconds(60);

  std::vector<absl::Status> RunAll(int world_size, const RankBody& body,
                                   absl::Duration timeout = kTimeout) {
    return GetParam()->run(world_size, timeout, body);
  }
  // All ranks must return OK.
  void Run(int world_size, const RankBody& body) {
    for (const absl::Status& status : RunAll(world_size, body)) {
      ASSERT_TRUE(status.ok()) << world_size << " ranks: " << status;
    }
  }
  void RunOnAllWorlds(const RankBody& body) {
    for (int world_size = 1; world_size <= kLargestWorld; ++world_size) {
      const bool skipped = world_size > 3 && world_size < kLargestWorld;
      if (GetParam()->slowness > 1 && skipped) continue;
      ASSERT_NO_FATAL_FAILURE(Run(world_size, body));
    }
  }
  // All ranks must return an error of this code with all these texts, and the
  // same one.
  void ExpectAllFail(const std::vector<absl::Status>& statuses,
                     absl::StatusCode code,
                     const std::vector<std::string>& texts) {
    for (const absl::Status& status : statuses) {
      EXPECT_EQ(status.code(), code) << status;
      EXPECT_EQ(status, statuses[0]);
      for (const std::string& text : texts) {
        EXPECT_TRUE(absl::StrContains(status.message(), text))
            << status << "\nlacks: " << text;
      }
    }
  }
};

TEST_P(CommConformance, RankAndSize) {
  RunOnAllWorlds([](Communicator& comm) {
    // Every rank writes its number where it belongs; all must be there.
    std::vector<int32_t> ranks(comm.size());
    const int32_t mine = comm.rank();
    TP_RETURN_IF_ERROR(comm.AllGather({1, comm.size(), 1, {}}, &mine,
                                      ranks.data(), CommDType::kI32, {}));
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (ranks[rank] != rank) return Differs(comm, "rank numbers");
    }
    return absl::OkStatus();
  });
}

TEST_P(CommConformance, AllReduce) {
  RunOnAllWorlds([](Communicator& comm) {
    Sites sites;
    for (const CommDType dtype : kAllCommDTypes) {
      for (const ReduceOp op : kAllReduceOps) {
        for (const int64_t count : {0, 1, 3, 17, 513, 4099}) {
          TP_RETURN_IF_ERROR(CheckAllReduce(comm, sites, dtype, op, count,
                                            /*in_place=*/count % 2 == 1, 0));
          TP_RETURN_IF_ERROR(CheckAllReduce(comm, sites, dtype, op, count,
                                            /*in_place=*/count % 2 == 0,
                                            ByteSize(dtype)));
        }
      }
    }
    return absl::OkStatus();
  });
}

// Around the sizes where an implementation may change its algorithm.
TEST_P(CommConformance, AllReduceOfEverySize) {
  for (const int world_size : {2, 3, 8}) {
    Run(world_size, [](Communicator& comm) {
      Sites sites;
      for (int64_t bytes = 64; bytes <= 1 << 16; bytes *= 2) {
        for (int64_t count = bytes / 4 - 1; count <= bytes / 4 + 1; ++count) {
          TP_RETURN_IF_ERROR(CheckAllReduce(comm, sites, CommDType::kF32,
                                            ReduceOp::kSum, count, true, 0));
        }
      }
      return CheckAllReduce(comm, sites, CommDType::kF32, ReduceOp::kSum,
                            1 << 18, true, 4);
    });
  }
}

TEST_P(CommConformance, AllGather) {
  RunOnAllWorlds([](Communicator& comm) {
    Sites sites;
    for (const ShardCase& shard : kShardCases) {
      for (const CommDType dtype : {CommDType::kBool, CommDType::kBF16,
                                    CommDType::kF32, CommDType::kI64}) {
        for (const bool weighted : {false, true}) {
          TP_RETURN_IF_ERROR(
              CheckAllGather(comm, sites, shard, dtype, weighted, false));
          if (shard.outer != 1) continue;
          TP_RETURN_IF_ERROR(
              CheckAllGather(comm, sites, shard, dtype, weighted, true));
        }
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommConformance, ReduceScatter) {
  RunOnAllWorlds([](Communicator& comm) {
    Sites sites;
    int turn = 0;
    for (const ShardCase& shard : kShardCases) {
      for (int i = 0; i < 4; ++i) {
        const CommDType dtype = kAllCommDTypes[turn % 10];
        const ReduceOp op = kAllReduceOps[turn++ % 3];
        for (const bool weighted : {false, true}) {
          TP_RETURN_IF_ERROR(CheckReduceScatter(comm, sites, shard, dtype, op,
                                                weighted, false));
          if (shard.outer != 1) continue;
          TP_RETURN_IF_ERROR(CheckReduceScatter(comm, sites, shard, dtype, op,
                                                weighted, true));
        }
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommConformance, AllToAll) {
  RunOnAllWorlds([](Communicator& comm) {
    Sites sites;
    for (const AllToAllCase& sizes : kAllToAllCases) {
      for (const CommDType dtype :
           {CommDType::kU8, CommDType::kF16, CommDType::kF32}) {
        for (const bool weighted : {false, true}) {
          for (const AllToAllDirection direction :
               {AllToAllDirection::kFirstToSecond,
                AllToAllDirection::kSecondToFirst}) {
            TP_RETURN_IF_ERROR(
                CheckAllToAll(comm, sites, sizes, dtype, direction, weighted));
          }
        }
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommConformance, Broadcast) {
  RunOnAllWorlds([](Communicator& comm) {
    Sites sites;
    for (const int64_t bytes : {0, 1, 8, 2047, 2048, 2049, 100001}) {
      for (int root = 0; root < comm.size(); ++root) {
        TP_RETURN_IF_ERROR(CheckBroadcast(comm, sites, bytes, root));
      }
    }
    return absl::OkStatus();
  });
}

// Explicit extents that are the default ones mean the same as none.
TEST_P(CommConformance, DefaultExtentsMayBeSpelledOut) {
  Run(3, [](Communicator& comm) {
    const std::vector<int64_t> extents = {3, 2, 2};
    ShardLayout layout{1, 7, 1, {}};
    if (comm.rank() == 1) layout.extents = extents;
    const std::vector<int32_t> local(3, comm.rank());
    std::vector<int32_t> global(7);
    TP_RETURN_IF_ERROR(comm.AllGather(layout, local.data(), global.data(),
                                      CommDType::kI32, {}));
    if (global == std::vector<int32_t>{0, 0, 0, 1, 1, 2, 2}) {
      return absl::OkStatus();
    }
    return Differs(comm, "spelled out extents");
  });
}

// A mesh of two axes: each rank uses the world, its row and its column in turn.
TEST_P(CommConformance, SubgroupsOfAMesh) {
  for (const int columns : {1, 2, 3, 4}) {
    Run(2 * columns, [columns](Communicator& comm) -> absl::Status {
      std::vector<int> row;
      for (int c = 0; c < columns; ++c) {
        row.push_back(comm.rank() / columns * columns + c);
      }
      // Minor rank first: the order given is the order of the subgroup.
      const std::vector<int> column = {comm.rank() % columns + columns,
                                       comm.rank() % columns};
      TP_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> rows,
                          comm.MakeSubgroup(row));
      TP_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> cols,
                          comm.MakeSubgroup(column));
      if (rows->size() != columns || rows->rank() != comm.rank() % columns ||
          cols->size() != 2 || cols->rank() != 1 - comm.rank() / columns) {
        return Differs(comm, "subgroup numbers");
      }
      Sites sites;
      for (int turn = 0; turn < 3; ++turn) {
        TP_RETURN_IF_ERROR(CheckEveryKind(*rows, sites));
        TP_RETURN_IF_ERROR(CheckEveryKind(*cols, sites));
        TP_RETURN_IF_ERROR(CheckEveryKind(comm, sites));
      }
      // Rows do not mix: the sum over a row tells its members.
      std::vector<int64_t> sum = {comm.rank()};
      TP_RETURN_IF_ERROR(rows->AllReduce(sum.data(), sum.data(), 1,
                                         CommDType::kI64, ReduceOp::kSum,
                                         sites.Next()));
      int64_t expected = 0;
      for (const int member : row) expected += member;
      return sum[0] == expected ? absl::OkStatus()
                                : Differs(comm, "sum over a row");
    });
  }
}

// Two groups of the same ranks, and groups within groups, are separate.
TEST_P(CommConformance, EqualAndNestedSubgroups) {
  Run(5, [](Communicator& comm) -> absl::Status {
    Sites sites;
    if (comm.rank() == 4) return comm.Barrier(sites.Next());
    const std::vector<int> members = {0, 1, 2, 3};
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> a,
                        comm.MakeSubgroup(members));
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> b,
                        comm.MakeSubgroup(members));
    const std::vector<int> half =
        a->rank() < 2 ? std::vector<int>{0, 1} : std::vector<int>{3, 2};
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> inner,
                        a->MakeSubgroup(half));
    Sites group_sites;
    TP_RETURN_IF_ERROR(CheckEveryKind(*b, group_sites));
    TP_RETURN_IF_ERROR(CheckEveryKind(*a, group_sites));
    TP_RETURN_IF_ERROR(CheckEveryKind(*inner, group_sites));
    TP_RETURN_IF_ERROR(CheckEveryKind(*b, group_sites));
    return comm.Barrier(sites.Next());
  });
}

TEST_P(CommConformance, BadSubgroupsAreRefusedAndHarmless) {
  Run(3, [](Communicator& comm) {
    for (const std::vector<int>& ranks :
         {std::vector<int>{}, std::vector<int>{0, 1, 2, 3},
          std::vector<int>{0, 1, 2, 2}, std::vector<int>{-1, 0, 1, 2},
          std::vector<int>{(comm.rank() + 1) % 3}}) {
      const absl::Status status = comm.MakeSubgroup(ranks).status();
      if (status.code() != absl::StatusCode::kInvalidArgument) {
        return absl::InternalError(
            absl::StrCat("not refused: ", status.ToString()));
      }
    }
    return comm.Barrier({});
  });
}

// Seeded sequences of calls of all kinds and many sizes.
TEST_P(CommConformance, RandomSequences) {
  const int calls = 400 / GetParam()->slowness;
  for (const int world_size : {2, 3, 5, 8}) {
    Run(world_size, [world_size, calls](Communicator& comm) -> absl::Status {
      Sites sites;
      std::mt19937_64 random(world_size);
      for (int i = 0; i < calls; ++i) {
        TP_RETURN_IF_ERROR(CheckRandomCall(comm, sites, random));
      }
      return absl::OkStatus();
    });
  }
}

// More ranks than cores must not collapse.
TEST_P(CommConformance, ManySmallCollectivesOnManyRanks) {
  const int calls = 10000 / GetParam()->slowness;
  const absl::Time start = absl::Now();
  Run(8, [calls](Communicator& comm) {
    Sites sites;
    for (int i = 0; i < calls; ++i) {
      float values[4] = {1, static_cast<float>(i), 0,
                         static_cast<float>(comm.rank())};
      TP_RETURN_IF_ERROR(comm.AllReduce(values, values, 4, CommDType::kF32,
                                        ReduceOp::kSum, sites.Next()));
      if (values[0] != 8 || values[1] != 8.0f * i || values[3] != 28) {
        return Differs(comm, "a small sum");
      }
    }
    return absl::OkStatus();
  });
  // Spinning without sleep takes minutes here; this is no measurement.
  EXPECT_LT(absl::Now() - start, absl::Seconds(60));
}

TEST_P(CommConformance, AbortWakesWaitingRanks) {
  for (const int64_t count : {4, 100000}) {
    const std::vector<absl::Status> statuses =
        RunAll(4, [count](Communicator& comm) {
          if (comm.rank() == 2) {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            comm.Abort(absl::ResourceExhaustedError("rank 2 has no memory"));
            comm.Abort(absl::InternalError("a later reason"));
            return comm.Barrier({});
          }
          std::vector<float> data(count);
          const absl::Status first =
              comm.AllReduce(data.data(), data.data(), count, CommDType::kF32,
                             ReduceOp::kSum, {});
          // It stays so.
          const absl::Status second = comm.Barrier({});
          return first == second ? first : absl::InternalError("changed");
        });
    ExpectAllFail(statuses, absl::StatusCode::kResourceExhausted,
                  {"rank 2 has no memory"});
  }
}

TEST_P(CommConformance, AbortReachesSubgroups) {
  const std::vector<absl::Status> statuses =
      RunAll(4, [](Communicator& comm) -> absl::Status {
        const std::vector<int> pair =
            comm.rank() < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
        TP_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> sub,
                            comm.MakeSubgroup(pair));
        TP_RETURN_IF_ERROR(sub->Barrier({}));
        if (comm.rank() == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          comm.Abort(absl::OkStatus());
          return comm.Barrier({});
        }
        // Rank 1 waits in its group, 2 and 3 in another and in the world.
        if (comm.rank() == 3) return comm.Barrier({});
        return sub->Barrier({});
      });
  ExpectAllFail(statuses, absl::StatusCode::kAborted, {"aborted"});
}

TEST_P(CommConformance, ARankThatNeverArrives) {
  const absl::Duration timeout = absl::Milliseconds(300);
  const std::vector<absl::Status> statuses = RunAll(
      3,
      [](Communicator& comm) {
        TP_RETURN_IF_ERROR(comm.Barrier({{}, {}, {}, 0}));
        if (comm.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(900));
        }
        const std::string op = "tp.all_reduce";  // Not longer than the call.
        const std::string module = "block.3.mlp";
        std::vector<float> data(5000);
        return comm.AllReduce(data.data(), data.data(), 5000, CommDType::kF32,
                              ReduceOp::kSum, {op, module, "mlp.py:12", 1});
      },
      timeout);
  ExpectAllFail(statuses, absl::StatusCode::kDeadlineExceeded,
                {"waited for rank 1", "tp.all_reduce", "sum f32[5000]",
                 "collective 1", "block.3.mlp", "mlp.py:12", "300ms"});
}

TEST_P(CommConformance, ARankThatLeavesIsNotWaitedFor) {
  const absl::Time start = absl::Now();
  const std::vector<absl::Status> statuses = RunAll(3, [](Communicator& comm) {
    TP_RETURN_IF_ERROR(comm.Barrier({{}, {}, {}, 0}));
    if (comm.rank() == 2) return absl::OkStatus();
    return comm.Barrier({"tp.barrier", {}, {}, 1});
  });
  EXPECT_TRUE(statuses[2].ok()) << statuses[2];
  ExpectAllFail({statuses[0], statuses[1]}, absl::StatusCode::kAborted,
                {"rank 2"});
  EXPECT_LT(absl::Now() - start, kTimeout / 2);
}

// Rank 1's second call is not the others'.
TEST_P(CommConformance, DifferentCallsAreAnErrorThatNamesBoth) {
  using Issue =
      std::function<absl::Status(Communicator&, float*, const CallSite&)>;
  struct MismatchCase {
    std::string usual_text, odd_text;
    Issue usual, odd;
  };
  const auto reduce = [](int64_t count, CommDType dtype, ReduceOp op) {
    return [=](Communicator& comm, float* data, const CallSite& site) {
      return comm.AllReduce(data, data, count, dtype, op, site);
    };
  };
  const auto gather = [](int64_t outer, int64_t factor, int64_t inner) {
    return [=](Communicator& comm, float* data, const CallSite& site) {
      return comm.AllGather({outer, factor, inner, {}}, data, data + 6000,
                            CommDType::kF32, site);
    };
  };
  const auto scatter = [](std::vector<int64_t> extents) {
    return [=](Communicator& comm, float* data, const CallSite& site) {
      return comm.ReduceScatter({2, 6, 2, extents}, data, data + 6000,
                                CommDType::kF32, ReduceOp::kSum, site);
    };
  };
  const auto exchange = [](int64_t inner, AllToAllDirection direction) {
    return [=](Communicator& comm, float* data, const CallSite& site) {
      AllToAllLayout layout;
      layout.first = layout.second = 3;
      layout.inner = inner;
      layout.direction = direction;
      return comm.AllToAll(layout, data, data + 6000, CommDType::kF32, site);
    };
  };
  const auto send = [](int64_t bytes, int root) {
    return [=](Communicator& comm, float* data, const CallSite& site) {
      return comm.Broadcast(data, bytes, root, site);
    };
  };
  const auto barrier = [](int64_t later) {
    return [=](Communicator& comm, float*, const CallSite& site) {
      CallSite moved = site;
      moved.index += later;
      return comm.Barrier(moved);
    };
  };
  constexpr auto kForward = AllToAllDirection::kFirstToSecond;
  constexpr auto kBack = AllToAllDirection::kSecondToFirst;
  const std::vector<MismatchCase> cases = {
      {"sum f32[8]", "sum f32[9]", reduce(8, CommDType::kF32, ReduceOp::kSum),
       reduce(9, CommDType::kF32, ReduceOp::kSum)},
      {"sum f32[8]", "sum f32[5000]",
       reduce(8, CommDType::kF32, ReduceOp::kSum),
       reduce(5000, CommDType::kF32, ReduceOp::kSum)},
      {"sum f32[5000]", "sum i32[5000]",
       reduce(5000, CommDType::kF32, ReduceOp::kSum),
       reduce(5000, CommDType::kI32, ReduceOp::kSum)},
      {"sum f32[8]", "max f32[8]", reduce(8, CommDType::kF32, ReduceOp::kSum),
       reduce(8, CommDType::kF32, ReduceOp::kMax)},
      {"f32[2, (3), 4]", "f32[3, (2), 4]", gather(2, 3, 4), gather(3, 2, 4)},
      {"f32[2, (300), 4]", "f32[2, (300), 5]", gather(2, 300, 4),
       gather(2, 300, 5)},
      {"(6), 2] (", "(6), 2] with extents", scatter({}), scatter({1, 2, 3})},
      {"f32[1, (3 from), 1, (3 to), 1]", "f32[1, (3 to), 1, (3 from), 1]",
       exchange(1, kForward), exchange(1, kBack)},
      {"(3 to), 2]", "(3 to), 3]", exchange(2, kForward),
       exchange(3, kForward)},
      {"of 80 bytes from rank 0", "of 81 bytes from rank 0", send(80, 0),
       send(81, 0)},
      {"of 8000 bytes from rank 0", "of 8000 bytes from rank 1", send(8000, 0),
       send(8000, 1)},
      {"(collective 1,", "(collective 2,", barrier(0), barrier(1)},
      {"sum f32[5000]", "f32[2, (3), 4]",
       reduce(5000, CommDType::kF32, ReduceOp::kSum), gather(2, 3, 4)},
      {"(6), 2] (", "sum f32[24]", scatter({}),
       reduce(24, CommDType::kF32, ReduceOp::kSum)},
      {"of 4 bytes", "(collective 1,", send(4, 2), barrier(0)},
  };
  for (const MismatchCase& mismatch : cases) {
    const std::vector<absl::Status> statuses =
        RunAll(3, [&mismatch](Communicator& comm) {
          TP_RETURN_IF_ERROR(comm.Barrier({}));
          std::vector<float> data(12000, 1.0f);
          const bool odd = comm.rank() == 1;
          const std::string source =
              absl::StrCat("model.py:", comm.rank() + 70);
          return (odd ? mismatch.odd : mismatch.usual)(
              comm, data.data(), {"tp.call", "block.0", source, 1});
        });
    ExpectAllFail(statuses, absl::StatusCode::kFailedPrecondition,
                  {"rank 0 calls", "rank 1 calls", "model.py:70", "model.py:71",
                   "block.0", mismatch.usual_text, mismatch.odd_text});
  }
}

// What one rank asks for is impossible: it learns why, and so do the others.
TEST_P(CommConformance, BadArgumentsEndTheWorldForAll) {
  using Issue = std::function<absl::Status(Communicator&, float*)>;
  const CallSite site = {"tp.call", "block.7", "model.py:9", 1};
  const std::vector<int64_t> too_few = {3};
  const std::vector<int64_t> wrong_sum = {3, 3};
  const std::vector<int64_t> negative = {5, -1};
  const int64_t huge = int64_t{1} << 61;
  const auto reduce = [site](const void* in, void* out, int64_t count) {
    return [=](Communicator& comm, float*) {
      return comm.AllReduce(in, out, count, CommDType::kF32, ReduceOp::kSum,
                            site);
    };
  };
  const auto gather = [site](ShardLayout layout) {
    return [=](Communicator& comm, float* data) {
      return comm.AllGather(layout, data, data + 100, CommDType::kF32, site);
    };
  };
  const std::vector<Issue> cases = {
      reduce(nullptr, nullptr, 5),
      reduce(nullptr, nullptr, -1),
      reduce(nullptr, nullptr, huge),
      [site](Communicator& comm, float* data) {
        return comm.AllReduce(data, data + 1, 5, CommDType::kF32,
                              ReduceOp::kSum, site);
      },
      gather({1, 4, 1, too_few}),
      gather({1, 4, 1, wrong_sum}),
      gather({1, 4, 1, negative}),
      gather({-1, 4, 1, {}}),
      gather({huge, 4, huge, {}}),
      [site](Communicator& comm, float* data) {
        return comm.AllGather({2, 4, 1, {}}, data, data, CommDType::kF32, site);
      },
      [site](Communicator& comm, float* data) {
        return comm.ReduceScatter({2, 4, 1, {}}, data, data + 2,
                                  CommDType::kF32, ReduceOp::kSum, site);
      },
      [site](Communicator& comm, float* data) {
        AllToAllLayout layout;
        layout.first = layout.second = 4;
        return comm.AllToAll(layout, data, data, CommDType::kF32, site);
      },
      [site](Communicator& comm, float* data) {
        return comm.Broadcast(data, 4, 2, site);
      },
      [site](Communicator& comm, float* data) {
        return comm.Broadcast(data, 4, -1, site);
      },
      [site](Communicator& comm, float* data) {
        return comm.Broadcast(data, -4, 0, site);
      },
      [site](Communicator& comm, float*) {
        return comm.Broadcast(nullptr, 4, 0, site);
      },
  };
  for (const Issue& issue : cases) {
    const std::vector<absl::Status> statuses =
        RunAll(2, [&issue](Communicator& comm) {
          std::vector<float> data(200);
          if (comm.rank() == 1) return issue(comm, data.data());
          return comm.Barrier({});
        });
    ExpectAllFail(statuses, absl::StatusCode::kInvalidArgument,
                  {"rank 1", "tp.call", "block.7", "model.py:9"});
  }
}

// Buffers are freed as soon as a call fails. A peer that still touched them
// would be caught by the address sanitizer, or here by the pattern.
TEST_P(CommConformance, AfterAnAbortNobodyTouchesTheBuffers) {
  const int repeats = 200 / GetParam()->slowness;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const std::vector<absl::Status> statuses =
        RunAll(4, [repeat](Communicator& comm) -> absl::Status {
          Sites sites;
          std::mt19937 random(repeat * 4 + comm.rank());
          const int aborter = repeat % 4;
          const int calls_before = 3 + repeat % 5;
          for (int call = 0;; ++call) {
            const int64_t count = repeat % 3 == 0 ? 3000 : 60000;
            auto data = std::make_unique<std::vector<float>>(count, 1.0f);
            if (comm.rank() == aborter && call == calls_before) {
              const auto pause = std::chrono::microseconds(random() % 200);
              std::this_thread::sleep_for(pause);
              comm.Abort(absl::CancelledError("enough"));
            }
            const absl::Status status =
                comm.AllReduce(data->data(), data->data(), count,
                               CommDType::kF32, ReduceOp::kSum, sites.Next());
            if (!status.ok()) {
              std::fill(data->begin(), data->end(), -1.0f);
              for (int look = 0; look < 20; ++look) {
                if (std::count(data->begin(), data->end(), -1.0f) != count) {
                  return Differs(comm, "a peer wrote after the abort");
                }
              }
              return status;
            }
          }
        });
    ExpectAllFail(statuses, absl::StatusCode::kCancelled, {"enough"});
  }
}

}  // namespace tp

#endif  // TP_TESTS_UNIT_COMM_CONFORMANCE_H_
