# SPDX-License-Identifier: Apache-2.0
"""Tables of ratios, and the project's speed targets measured against them."""

# Whom weft is compared with, of those that share memory.
PEERS = ("openmpi", "mpich", "impi", "oneccl")
TIE = 1.05  # of the best peer's time
REGRETS = (0.05, 0.20)  # of the free choice of a way, at most: at the middle point, and at nine tenths of them
# What is shown by the fastest of its variants.
VARIANTS = {"bound": ("bound-plain", "bound-stream", "bound-lines"), "bare": ("sockets-sleep", "sockets-poll")}
NOT_SHOWN = sum(VARIANTS.values(), ())
# What a time is where it is not that of a call.
PARTS = {"pingpong": "one way, half of the round trip", "window": "per message of a window of 64"}


# What a figure is, over an entry's turns. On a machine that is busy with other work, where medians measure the
# scheduler, "fastest" still compares the libraries; the targets are defined by medians.
STATISTICS = {"median": "time_us", "fastest": "fastest_us"}


def with_bound(rows, key):
    """Adds the entries "bound" and "bare": at each size the fastest of their variants."""
    best = {}
    for row in rows:
        for entry in [entry for entry, variants in VARIANTS.items() if row["entry"] in variants]:
            at = entry, row["size_bytes"]
            if at not in best or row[key] < best[at][key]:
                best[at] = {**row, "entry": entry, "variant": row["entry"]}
    return rows + list(best.values())


def _times(table, key):
    """{size: {entry: microseconds}} without variants that are not shown."""
    times = {}
    for row in table["rows"]:
        if row["entry"] not in NOT_SHOWN and row.get(key) is not None:
            times.setdefault(row["size_bytes"], {})[row["entry"]] = row[key]
    return times


def _entries(times):
    order = ("bound", "bare", "readv", "weft", *PEERS, "gloo", "fixed")
    names = {entry for row in times.values() for entry in row}
    return sorted(names, key=lambda name: (next(i for i, o in enumerate(order) if name.startswith(o)), name))


def _time(value):
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def print_table(table, name_size, statistic):
    times = _times(table, STATISTICS[statistic])
    entries = _entries(times)
    ours = [name for name in entries if name.startswith("weft")]
    others = [name for name in entries if not name.startswith("weft")]
    print(f"\n# {table['operation']}, {table['title']}; buffers {table.get('buffers', 'by size')}; processors {', '.join(map(str, table['processors']))}")
    for library in table["libraries"]:
        print(f"#   {library['library']:12} {library['version']}")
    print(f"# {statistic} time {PARTS.get(table['operation'], 'per call')} (us)")
    print(f"{'size':>8}" + "".join(f"{name:>13}" for name in entries))
    for size, row in sorted(times.items()):
        print(f"{name_size(size):>8}" + "".join(f"{_time(row.get(name)):>13}" for name in entries))
    for mine in ours:
        print(f"# speed of {mine}: the other's time / its time (above 1: {mine} is faster), and its GB/s")
        print(f"{'size':>8}" + "".join(f"{name:>13}" for name in others) + f"{'GB/s':>10}")
        for size, row in sorted(times.items()):
            if mine not in row:
                continue
            cells = [f"{row[name] / row[mine]:.2f}" if name in row else "-" for name in others]
            print(f"{name_size(size):>8}" + "".join(f"{cell:>13}" for cell in cells)
                  + f"{size / row[mine] / 1e3:>10.3f}")


def target(name, measured, limit, wanted_at_least, missing=None):
    if missing:
        return {"target": name, "result": "NOT MEASURED", "why": missing}
    passed = measured >= limit if wanted_at_least else measured <= limit
    return {"target": name, "result": "PASS" if passed else "FAIL", "measured": round(measured, 3),
            "limit": limit, "wanted": "at least" if wanted_at_least else "at most"}


def _best(row, names):
    present = [row[name] for name in names if name in row]
    return min(present) if present else None


def _speed_target(title, row, mine, others, limit):
    """mine's bandwidth over the best of others', at least limit."""
    best = _best(row, others)
    if mine not in row or best is None:
        return target(title, 0, limit, True, f"{mine} or {' and '.join(others)} did not run this size")
    return target(title, best / row[mine], limit, True)


def _time_target(title, row, mine, other, limit):
    """mine's time over other's, at most limit."""
    if mine not in row or other not in row:
        return target(title, 0, limit, False, f"{mine} or {other} did not run this size")
    return target(title, row[mine] / row[other], limit, False)


def _ratios(table, state):
    """{size: {mine: (its time, the best peer, its time)}} of near processors, or of far ones."""
    ratios = {}
    for size, row in sorted(_times(table, state + "_us").items()):
        peers = {name: row[name] for name in PEERS if name in row}
        ours = {name: time for name, time in row.items() if name.startswith("weft")}
        if peers and ours:
            best = min(peers, key=peers.get)
            ratios[size] = {name: (time, best, peers[best]) for name, time in ours.items()}
    return ratios


def print_states(table, name_size):
    """Near and far apart, where the ranks have looked: microseconds, and the ratio to the best peer, below 1: weft is faster."""
    for state in ("near", "far"):
        ratios = _ratios(table, state)
        ours = sorted({name for row in ratios.values() for name in row})
        if not ours:
            continue
        print(f"# processors {state}: the best peer's time, weft's, and weft's / the best peer's (below 1: weft is faster)")
        print(f"{'size':>8}{'best peer':>18}" + "".join(f"{name:>13}{'ratio':>7}" for name in ours))
        for size, row in ratios.items():
            _, best, time = next(iter(row.values()))
            cells = [f"{_time(row[name][0]):>13}{row[name][0] / time:>7.2f}" if name in row else f"{'-':>13}{'-':>7}"
                     for name in ours]
            print(f"{name_size(size):>8}{_time(time):>9} {best:<8}" + "".join(cells))


def ahead(tables):
    """{(state, entry): {"ahead", "tie", "behind"}}: points, which are (operation, buffers, size, ratio)."""
    counts = {}
    for table in tables:
        for state in ("near", "far"):
            for size, row in _ratios(table, state).items():
                for name, (time, _, best) in row.items():
                    kind = "ahead" if time <= best else "tie" if time <= TIE * best else "behind"
                    points = counts.setdefault((state, name), {"ahead": [], "tie": [], "behind": []})[kind]
                    points.append((table["operation"], table.get("buffers", "by size"), size, time / best))
    return counts


def print_ahead(tables, name_size):
    for (state, name), points in sorted(ahead(tables).items(), key=lambda item: (item[0][0] == "far", item[0][1])):
        total = sum(map(len, points.values()))
        print(f"# processors {state}, {name}: ahead of the best of {', '.join(PEERS)} at {len(points['ahead'])} of {total} points, "
              f"{len(points['tie'])} within {(TIE - 1) * 100:.0f} %, {len(points['behind'])} behind")
        for operation, buffers, size, ratio in points["behind"]:
            print(f"#     behind: {operation}, {name_size(size)}, buffers {buffers}: {ratio:.2f} times its time")


def against_better(title, times, mine, others=PEERS):
    """mine's time over the best of the others', at most 1."""
    best = _best(times, others)
    title += ": time of weft / best peer"
    if mine not in times or best is None:
        return target(title, 0, 1.0, False, f"{mine} or {' and '.join(others)} did not run")
    return target(title, times[mine] / best, 1.0, False)


def _judge_operation(operation, times, name_size):
    """Not slower than the best peer; both kinds of memory, since the peers' is always ordinary."""
    return [against_better(f"{operation} {name_size(size)}, {what}", times[size], mine)
            for mine, what in (("weft-malloc", "malloc memory"), ("weft-mem", "weft_mem_alloc memory"))
            for size in sorted(times)]


def _judge_shm(times, name_size):
    targets = []
    for size in [size for size in sorted(times) if size <= 4096]:
        targets.append(_time_target(f"shm {name_size(size)}: time of weft / Open MPI", times[size], "weft-malloc",
                                    "openmpi", 1.2))
    for mine, what, limits in (("weft-malloc", "malloc memory", (1.2, 1.5, 2.0)),
                               ("weft-mem", "weft_mem_alloc memory", (3.0, 3.0, 3.0))):
        for size, limit in zip((1 << 20, 8 << 20, 32 << 20), limits):
            targets.append(_speed_target(f"shm {name_size(size)}, {what}: bandwidth of weft / best peer",
                                         times.get(size, {}), mine, PEERS, limit))
    return targets


def _judge_tcp(times, name_size):
    # Each apart: one that is absent leaves its own targets unmeasured.
    return [_speed_target(f"tcp {name_size(size)}: speed of weft / {what}", times[size], "weft-tcp", others, 1.0)
            for what, others in (("Open MPI", ("openmpi",)), ("better of Gloo", ("gloo-ring", "gloo-bcube")))
            for size in sorted(times)]


def _judge_sockets(operation, times, name_size):
    """Beside bare sockets: what a message costs more, and what a stream of them loses or, where they are small, wins."""
    if operation == "pingpong":
        return [_time_target(f"tcp one way {name_size(size)}: time of weft / bare sockets", times[size], "weft-tcp",
                             "bare", 1.2) for size in sorted(times)]
    return [_speed_target(f"tcp window {name_size(size)}: speed of weft / bare sockets", times[size], "weft-tcp",
                          ("bare",), 0.9 if size >= 8192 else 1.0) for size in sorted(times)]


def _judge_over(times, name_size):
    return [_time_target(f"4 ranks on 2 processors, {name_size(size)}: time of weft / Open MPI", times[size],
                         "weft-malloc", "openmpi", 1.0) for size in sorted(times)]


def _rows_apart(table, key):
    """[(size, where, {entry: microseconds})]: with processors near, and far, as far as all entries were seen so; both together where they were not. Those apart are medians."""
    states = [(f", {state}", _times(table, f"{state}_us")) for state in ("near", "far")] if key == STATISTICS["median"] else []
    for size, row in _times(table, key).items():
        apart = [(size, where, times[size]) for where, times in states if set(times.get(size, ())) == set(row)]
        yield from apart or [(size, "", row)]


def regrets(tables, key):
    """[(how many times the free choice's time is the best fixed way's, less 1, operation, buffers, size, where, that way)], the largest first."""
    found = []
    for table in tables:
        for size, where, row in _rows_apart(table, key) if table["name"] == "ways" else ():
            ways = {name: time for name, time in row.items() if name.startswith("fixed")}
            if ways and "weft-free" in row:
                best = min(ways, key=ways.get)
                found.append((row["weft-free"] / ways[best] - 1, table["operation"], table.get("buffers", "by size"), size, where, best))
    return sorted(found, reverse=True)


def _judge_regrets(found):
    """What the free choice costs beside the way that was the best: at the middle point, and at nine tenths of them, with processors near, far, and both together."""
    targets = []
    for state in (", near", ", far", ""):
        values = sorted(regret for regret, *_, where, _ in found if where == state)
        if values:
            targets += [target(f"regret of the free choice{state}, the middle point", values[(len(values) - 1) // 2], REGRETS[0], False),
                        target(f"regret of the free choice{state}, nine tenths of the points", values[max(-(-9 * len(values) // 10) - 1, 0)],
                               REGRETS[1], False)]
    return targets


def print_regrets(tables, name_size, statistic):
    found = regrets(tables, STATISTICS[statistic])
    if found:
        print(f"# free choice of the way beside the best fixed one, {len(found)} points; the largest regrets:")
    for regret, operation, buffers, size, where, best in found[:max(len(found) // 10, 3)]:
        print(f"#     {operation}, {name_size(size)}{where}, buffers {buffers}: {regret * 100:+.0f} % of {best}'s time")


def judge(tables, name_size, statistic):
    judges = {"shm": _judge_shm, "tcp": _judge_tcp, "over": _judge_over}
    targets = []
    for table in tables:
        times = _times(table, STATISTICS[statistic])
        found = []
        if table["operation"] == "allreduce" and table["name"] in judges:
            found = judges[table["name"]](times, name_size)
        elif table["name"] == "tcp" and table["operation"] in ("pingpong", "window"):
            found = _judge_sockets(table["operation"], times, name_size)
        elif table["name"] == "shm" and table["operation"] != "window":
            found = _judge_operation(table["operation"], times, name_size)
        buffers = table.get("buffers", "by size")
        if buffers != "by size":
            found = [{**target, "target": f"buffers {buffers}: {target['target']}"} for target in found]
        targets += found
    return targets + _judge_regrets(regrets(tables, STATISTICS[statistic]))


def print_targets(targets, statistic):
    print("\n# targets" + ("" if statistic == "median" else
                          f", judged by the {statistic} turns: not the medians that define them"))
    for target in targets:
        if "measured" in target:
            print(f"{target['result']:13}{target['target']}: {target['measured']:.2f} "
                  f"({target['wanted']} {target['limit']})")
        else:
            print(f"{target['result']:13}{target['target']}: {target['why']}")
    counts = {result: sum(target["result"] == result for target in targets)
              for result in ("PASS", "FAIL", "NOT MEASURED")}
    print(f"# {counts['PASS']} of {len(targets)} targets reached, {counts['FAIL']} missed, "
          f"{counts['NOT MEASURED']} not measured")
