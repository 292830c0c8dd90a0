# A formula and columns dealt to parties: which terms are whose.

# Terms of a sum, in their order; parentheses around a sum say nothing. A sign is kept for `- 1`.
summands <- function(side, sign = "+") {
    name <- if (is.call(side)) deparse(side[[1]])[[1]] else ""
    if (name == "(" ) return(summands(side[[2]], sign))
    if (name %in% c("+", "-")) {
        if (length(side) == 2) return(summands(side[[2]], if (name == "-") flip(sign) else sign))
        return(c(summands(side[[2]], sign), summands(side[[3]], if (name == "-") flip(sign) else sign)))
    }
    list(list(sign = sign, term = side))
}

flip <- function(sign) if (sign == "+") "-" else "+"

# One line of text of a piece of a formula.
as_written <- function(piece) paste(deparse(piece, width.cutoff = 500L, backtick = TRUE, control = NULL), collapse = " ")

# `splines::ns(x)` is `ns(x)` to the programs.
without_package <- function(piece) {
    if (!is.call(piece)) return(piece)
    if (identical(piece[[1]], as.name("::")) && as.character(piece[[2]]) %in% c("splines", "stats", "base")) {
        return(piece[[3]])
    }
    piece[] <- lapply(piece, function(part) if (missing(part)) part else without_package(part))
    piece
}

refuse <- function(...) stop(paste0(...), call. = FALSE)

quoted <- function(names) paste0("`", names, "`", collapse = ", ")

# The nearest of these names, as a hint; none where nothing is near.
nearest <- function(name, known) {
    if (!length(known)) return("")
    distance <- utils::adist(name, known, ignore.case = TRUE)[1, ]
    if (min(distance) > max(1, nchar(name) / 3) || min(distance) >= nchar(name)) return("")
    paste0("; the nearest name is `", known[which.min(distance)], "`")
}

check_columns <- function(names, data, what) {
    for (name in setdiff(names, names(data))) {
        refuse(what, ": there is no column `", name, "` in `data`", nearest(name, names(data)))
    }
}

# The named list of parties from `alice`, `bob` and `parties`, each with its columns; a missing list is NULL until the formula is read.
named_parties <- function(alice, bob, parties) {
    if (is.null(parties)) return(list(alice = alice, bob = bob))
    if (!is.null(alice) || !is.null(bob)) refuse("give either `alice` and `bob`, or `parties`")
    if (!is.list(parties) || is.null(names(parties)) || any(!nzchar(names(parties))) || anyDuplicated(names(parties))) {
        refuse("`parties` is a list with a name for each party: list(clinic = c(\"age\", \"sex\"), lab = \"crp\", registry = \"stage\")")
    }
    if (length(parties) < 2) refuse("`parties` names fewer than two parties")
    parties
}

# Deals the columns that the formula names to the parties: of two parties one may be left out, and holds what the other does not.
deal_columns <- function(parties, data, needed, outcome) {
    for (name in names(parties)) {
        columns <- parties[[name]]
        if (inherits(columns, "formula")) {
            refuse("`", name, "` is a list of column names; terms such as `log(x)` have their place in the formula")
        }
        if (!is.null(columns) && !is.character(columns)) refuse("`", name, "` is to be a vector of column names")
        check_columns(columns, data, paste0("`", name, "`"))
        if (any(columns %in% outcome)) refuse("`", outcome, "` is the outcome, and cannot be a column of ", name, " too")
    }
    all <- unlist(parties)
    twice <- unique(all[duplicated(all)])
    if (length(twice)) refuse(quoted(twice), " is dealt twice: a column belongs to one party")
    open <- names(parties)[vapply(parties, is.null, NA)]
    rest <- setdiff(needed, all)
    if (length(open) == length(parties) && length(parties) == 2) {
        half <- ceiling(length(rest) / 2)
        parties[open] <- list(head(rest, half), rest[-seq_len(half)])
    } else if (length(open) == 1) {
        parties[open] <- list(rest)
    } else if (length(open)) {
        refuse("name the columns of ", quoted(open))
    }
    parties
}

# A term with the other columns in place of a dot, as a sum in parentheses; in functions a dot has no place.
with_dot <- function(piece, others, whole = piece) {
    if (identical(piece, as.name("."))) return(call("(", Reduce(function(a, b) call("+", a, b), lapply(others, as.name))))
    if (!"." %in% all.vars(piece)) return(piece)
    if (!deparse(piece[[1]])[[1]] %in% c("+", "*", ":", "^", "(")) {
        refuse("`.` has its place in sums, products and powers: in `", as_written(whole), "` name the columns")
    }
    piece[-1] <- lapply(as.list(piece)[-1], with_dot, others, whole)
    piece
}

# The holder of a term. An interaction across parties would need a product of two columns of which nobody holds both.
holder <- function(term, parties, written = term) {
    of <- intersect(all.vars(term), unlist(parties))
    holders <- names(parties)[vapply(parties, function(columns) any(of %in% columns), NA)]
    if (length(holders) > 1) {
        owned <- vapply(holders, function(name) paste0(quoted(intersect(of, parties[[name]])), " of ", name), "")
        refuse(
            "the term `", as_written(written), "` joins ", paste(owned, collapse = " and "),
            ": an interaction needs all its columns at one party, as no party sees a column of another"
        )
    }
    holders
}

# Every name of the formula is a column. In functions `T`, `F` and `pi` are left to the program, which has a sentence for each.
check_names <- function(terms, named, data, formula) {
    alone <- vapply(Filter(is.name, terms), as.character, "")
    for (name in setdiff(named, names(data))) {
        if (name %in% c("T", "F", "pi") && !name %in% alone) next
        if (exists(name, envir = environment(formula), mode = "numeric")) {
            refuse("formula: `", name, "` is no column of `data`, and the programs know no variables of R: write its value")
        }
        check_columns(name, data, "formula")
    }
}

# Splits the right side of a formula into the terms of each party, and offsets.
deal_terms <- function(formula, data, parties, outcome, beside) {
    pieces <- summands(without_package(formula[[3]]))
    numbers <- vapply(pieces, function(piece) is.numeric(piece$term) && piece$term %in% c(0, 1), NA)
    # As in R, the last of `1`, `0` and `- 1` counts.
    intercept <- TRUE
    for (piece in pieces[numbers]) intercept <- (piece$term == 1) == (piece$sign == "+")
    pieces <- pieces[!numbers]
    for (piece in pieces) {
        if (piece$sign == "-") {
            refuse("`- ", as_written(piece$term), "`: terms cannot be taken away by `-`, write out those that stay")
        }
    }
    terms <- lapply(pieces, `[[`, "term")
    is_offset <- vapply(terms, function(term) is.call(term) && identical(term[[1]], as.name("offset")), NA)
    offsets <- terms[is_offset]
    terms <- terms[!is_offset]
    others <- setdiff(names(data), c(outcome, all.vars(formula[[2]]), beside, unlist(lapply(offsets, all.vars))))
    written <- terms
    terms <- lapply(terms, function(term) if (identical(term, as.name("."))) term else with_dot(term, others))
    dots <- vapply(terms, identical, NA, as.name("."))
    named <- unique(unlist(lapply(terms, all.vars)))
    named <- named[named != "."]
    check_names(terms, named, data, formula)
    if (any(named %in% outcome)) refuse("`", outcome, "` is the outcome, and cannot stand on the right side too")
    if (!any(dots)) others <- NULL
    needed <- intersect(union(others, named), names(data))
    parties <- deal_columns(parties, data, needed, outcome)
    homeless <- setdiff(named[named %in% names(data)], unlist(parties))
    if (length(homeless)) refuse("nobody holds ", quoted(homeless), ": name it in the columns of a party")
    at <- list(
        terms = lapply(parties, function(columns) list()), sequence = list(), offsets = offsets, parties = parties, intercept = intercept
    )
    for (place in seq_along(terms)) {
        term <- terms[[place]]
        if (dots[[place]]) {
            for (name in names(parties)) {
                at$terms[[name]] <- c(at$terms[[name]], lapply(intersect(others, parties[[name]]), as.name))
            }
            at$sequence <- c(at$sequence, lapply(others, as.name))
        } else {
            name <- holder(term, parties, written[[place]])
            # Without a column, such as `log(2)`: any party's program says what is wrong with it.
            if (!length(name)) name <- names(parties)[[1]]
            at$terms[[name]] <- c(at$terms[[name]], list(term))
            at$sequence <- c(at$sequence, list(term))
        }
    }
    at$terms <- lapply(at$terms, unique)
    for (name in names(parties)) {
        if (!length(at$terms[[name]])) {
            refuse("no term of the formula is of ", name, ": each party needs at least one column of the model")
        }
    }
    at
}

# The party that holds the intercept: alice, or of others the leader.
first_party <- function(names, flags) {
    if (setequal(names, c("alice", "bob"))) return("alice")
    alone <- intersect(flags[["outcome-at"]], names)
    c(flags$leader, alone, sort(names, method = "radix"))[[1]]
}

# Without an intercept R has all levels of the first factor, main effects before interactions, and the programs those of the first party's
# first one.
check_first_factor <- function(dealt, frame, first) {
    joint <- Reduce(function(a, b) call("+", a, b), c(0, dealt$sequence))
    labels <- attr(stats::terms(stats::as.formula(call("~", joint))), "term.labels")
    is_factor <- function(label) {
        term <- parse(text = label, keep.source = FALSE)[[1]]
        kept <- frame[intersect(all.vars(term), names(frame))]
        any(all.names(term) %in% c("factor", "cut")) || !all(vapply(kept, is.numeric, NA))
    }
    factors <- Filter(is_factor, labels)
    if (!length(factors)) return(invisible())
    named <- all.vars(parse(text = factors[[1]], keep.source = FALSE)[[1]])
    if (all(intersect(named, names(frame)) %in% dealt$parties[[first]])) return(invisible())
    refuse(
        "without an intercept `", factors[[1]], "` has all its levels in R, and here only the first factor of ", first,
        ", which would hold the intercept: write a factor of ", first, " before it, or keep the intercept"
    )
}
