// Runs a graph of empty tasks on a library for C++ and prints the seconds of making it and running it: the libraries'
// threads run already. native_libraries.py compiles it, once with -DWITH_TBB and once with -DWITH_TASKFLOW.
//   native_graph FILE WORKERS [check]     check: each task fails the program if a predecessor has not ended before it
// The file has 32-bit numbers: how many tasks, where each one's predecessors begin in the rest (and where the last one's
// end), then the predecessors.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <thread>
#include <vector>

#ifdef WITH_TBB
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#else
#include <taskflow/taskflow.hpp>
#endif

struct Graph {
    uint32_t count = 0;
    std::vector<uint32_t> begins, predecessors;
    bool has_edges() const { return !predecessors.empty(); }
};

static bool read_into(std::ifstream &file, std::vector<uint32_t> &numbers, size_t count)
{
    numbers.resize(count);
    return !!file.read(reinterpret_cast<char *>(numbers.data()), (std::streamsize)(count * sizeof(uint32_t)));
}

static bool read_graph(const char *path, Graph &graph)
{
    std::ifstream file(path, std::ios::binary);
    return file.read(reinterpret_cast<char *>(&graph.count), sizeof graph.count) &&
           read_into(file, graph.begins, graph.count + size_t{1}) &&
           read_into(file, graph.predecessors, graph.begins.back());
}

struct Empty {
    void operator()(uint32_t) const {}
};

struct Check {
    const Graph &graph;
    std::deque<std::atomic<bool>> &ended;
    void operator()(uint32_t task) const
    {
        for (uint32_t at = graph.begins[task]; at < graph.begins[task + 1]; at++)
            if (!ended[graph.predecessors[at]].load())
                std::_Exit(3);
        ended[task].store(true);
    }
};

using Clock = std::chrono::steady_clock;

static double seconds_since(Clock::time_point begin)
{
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Tasks that meet until all threads have begun to work.
struct Meeting {
    std::atomic<int> missing;
    void operator()()
    {
        const auto begin = Clock::now();
        missing--;
        while (missing.load() > 0 && seconds_since(begin) < 1)
            std::this_thread::yield();
    }
};

#ifdef WITH_TBB
template <typename Body> static double run_without_edges(const Graph &graph, Body body)
{
    const auto begin = Clock::now();
    tbb::task_group tasks;
    for (uint32_t task = 0; task < graph.count; task++)
        tasks.run([=] { body(task); });
    tasks.wait();
    return seconds_since(begin);
}

template <typename Body> static double run_with_edges(const Graph &graph, Body body)
{
    using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;
    const auto begin = Clock::now();
    tbb::flow::graph flow;
    std::deque<Node> nodes;
    for (uint32_t task = 0; task < graph.count; task++) {
        nodes.emplace_back(flow, [=](const tbb::flow::continue_msg &) { body(task); });
        for (uint32_t at = graph.begins[task]; at < graph.begins[task + 1]; at++)
            tbb::flow::make_edge(nodes[graph.predecessors[at]], nodes[task]);
    }
    for (uint32_t task = 0; task < graph.count; task++)
        if (graph.begins[task] == graph.begins[task + 1])
            nodes[task].try_put(tbb::flow::continue_msg());
    flow.wait_for_all();
    return seconds_since(begin);
}

template <typename Body> static double run(const Graph &graph, int workers, Body body)
{
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, (size_t)workers);
    tbb::task_arena arena(workers);
    return arena.execute([&] {
        Meeting meeting{{workers}};
        tbb::task_group threads;
        for (int i = 0; i < workers; i++)
            threads.run([&] { meeting(); });
        threads.wait();
        return graph.has_edges() ? run_with_edges(graph, body) : run_without_edges(graph, body);
    });
}
#else
template <typename Body> static double run(const Graph &graph, int workers, Body body)
{
    tf::Executor executor((size_t)workers);
    Meeting meeting{{workers}};
    for (int i = 0; i < workers; i++)
        executor.silent_async([&] { meeting(); });
    executor.wait_for_all();
    const auto begin = Clock::now();
    tf::Taskflow flow;
    std::vector<tf::Task> tasks;
    tasks.reserve(graph.count);
    for (uint32_t task = 0; task < graph.count; task++) {
        tasks.push_back(flow.emplace([=] { body(task); }));
        for (uint32_t at = graph.begins[task]; at < graph.begins[task + 1]; at++)
            tasks[graph.predecessors[at]].precede(tasks[task]);
    }
    executor.run(flow).wait();
    return seconds_since(begin);
}
#endif

int main(int count, char **arguments)
{
    Graph graph;
    const int workers = count < 3 ? 0 : std::atoi(arguments[2]);
    if (workers < 1 || !read_graph(arguments[1], graph)) {
        std::fprintf(stderr, "native_graph FILE WORKERS [check]: no such graph, or no worker\n");
        return 2;
    }
    double duration_s;
    if (count > 3 && std::strcmp(arguments[3], "check") == 0) {
        std::deque<std::atomic<bool>> ended(graph.count);
        duration_s = run(graph, workers, Check{graph, ended});
        for (const std::atomic<bool> &one : ended)
            if (!one.load())
                return 3;
    } else
        duration_s = run(graph, workers, Empty{});
    std::printf("%.9f\n", duration_s);
    return 0;
}
