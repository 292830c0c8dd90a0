#' Rehearse a federated regression on one machine
#'
#' Deals the columns of a data frame to two or more parties, starts the programs of a study as processes on this machine, lets them
#' fit the model together, and returns what they report. Nothing leaves the machine.
#'
#' @section Programs:
#' The program `demo` of fedreg is looked for in the folder that the option `fedreg.bin` or the environment variable `FEDREG_BIN`
#' names, and otherwise on `PATH`. It is built by `cargo build --release` in a checkout of fedreg. Without it only [read_fedreg()]
#' and the methods for its result work.
#'
#' @section Formula:
#' The programs compute the terms, from each party's own columns, and know `a + b`, `a:b`, `a * b`, `(a + b)^2`, `.`, `log`, `log2`,
#' `log10`, `log1p`, `exp`, `sqrt`, `I()`, `poly`, `ns`, `bs`, `factor`, `cut` and `scale`. Other functions are refused: make a column
#' of their values. Columns of two parties cannot interact. The left side may be any expression, as both parties hold the
#' outcome. `offset()` and `weights` are computed before the parties begin. With `- 1` the first factor of the formula must be
#' one of alice, or of the leader: it has all its levels.
#'
#' A factor keeps the order of its levels, as if the study declared them, and text has its levels in the order of bytes; the
#' first one is the reference.
#'
#' @section Conditions:
#' Where the programs refuse or fail, an error of class `fedreg_error` has their `sentence`, the `exit_code` and the `log`. A fit
#' that is not finished (exit code 3) is returned with a warning of the classes `fedreg_unfinished` and `fedreg_error`. A missing
#' program is a `fedreg_missing_program`, programs of another version are a `fedreg_version`; both are a `fedreg_error` too.
#'
#' @param formula a formula such as `y ~ a + log(b)`, see below.
#' @param data a data frame.
#' @param alice,bob names of the columns that each of two parties holds. One of them may be left out: it is then what the other
#'   does not hold; without both, alice has the first half of the columns in the formula.
#' @param family `gaussian`, `binomial`, `poisson`, `quasibinomial` or `quasipoisson` with their canonical link, as for [stats::glm()].
#' @param mode what leaves a party: `"plain"`, `"sealed"` or `"private"`.
#' @param weights,offset case weights and an offset, as for [stats::glm()].
#' @param missing what happens to rows with missing values: `"refuse"` ends the run, as by default in a study, and
#'   `"complete-cases"` leaves them out.
#' @param bounds public ranges and levels for `mode = "private"`: a list such as `list(age = c(18, 90), region = c("north",
#'   "south"))`, known without the data, or the path of a TOML file.
#' @param parties in place of `alice` and `bob`: a list with the columns of two to sixteen parties, by name.
#' @param out a folder for the study's files and the reports of all parties, among them `report.html`. By default they are removed.
#' @param ... flags of `demo vertical`, with `_` for `-`: `epsilon = 3`, `lambda = "path"`, `errors = "HC3"`, `max_rounds = 100`,
#'   `outcome_at = "alice"`, `no_inference = TRUE`.
#'
#' @return An object of class `fedreg`. Its element `report` is the parsed merged report, with all that the methods do not show:
#'   what left each party, tests of terms, discrimination and calibration. See [fedreg-methods] and [tidiers].
#' @seealso [read_fedreg()] for the report of a real study.
#' @examples
#' \dontrun{
#' Sys.setenv(FEDREG_BIN = "/path/to/fedreg/target/release")
#' fit <- fed_glm(mpg ~ wt + log(hp) + qsec, mtcars, alice = "wt", bob = c("hp", "qsec"))
#' summary(fit)
#' }
#' @export
fed_glm <- function(formula, data, alice = NULL, bob = NULL, family = gaussian, mode = "plain", weights = NULL, offset = NULL,
                    missing = "refuse", bounds = NULL, parties = NULL, out = NULL, ...) {
    call <- match.call()
    check_call(call)
    formula <- checked_formula(formula)
    if (base::missing(data) || !is.data.frame(data)) refuse("`data` is to be a data frame with all columns of the model")
    check_locale(used_names(formula, data, c(alice, bob, parties, list(...))), "the column")
    family <- checked_family(family)
    flags <- checked_flags(list(...))
    # As in `glm`, both are read in the data first, then where the formula was written.
    weights <- beside_model(substitute(weights), data, formula, "weights")
    offset <- beside_model(substitute(offset), data, formula, "offset")
    # These flags name columns, which the table must have.
    columns <- unlist(flags[names(flags) %in% c("id", "folds")])
    check_columns(columns, data, "`id` or `folds`")
    outcome <- outcome_of(formula, data, family)
    parties_of <- named_parties(alice, bob, parties)
    dealt <- deal_terms(formula, data, parties_of, outcome$name, beside = c(weights$name, offset$name, columns))
    offset <- all_offsets(offset, dealt$offsets, data, formula)
    extra <- columns_beside(list(outcome = outcome, weights = weights, offset = offset), dealt$terms, names(data))
    model <- encoded_model(dealt$terms, data, lapply(extra, `[[`, "values"), outcome$name, family, bounds, mode)
    columns <- setdiff(columns, c(model$used, names(extra)))

    declare <- if (identical(mode, "private")) list() else levels_to_declare(model$frame)
    first <- first_party(names(dealt$terms), flags)
    if (!dealt$intercept) check_first_factor(dealt, model$frame, first)
    held <- party_flags(dealt$terms, declare, several = !is.null(parties), without = if (!dealt$intercept) first)
    flags <- c(
        held$flags,
        list(outcome = outcome$name, family = family, mode = mode, missing = missing),
        stats::setNames(as.list(names(extra)), vapply(extra, `[[`, "", "role"))[-1], flags
    )
    run <- rehearse(c(model$columns, as.list(data[columns])), flags, model$bounds, outcome$name, out)
    fit <- fedreg_object(spoken_as_in_r(run$report, held$spoken), call)
    fit$formula <- formula
    fit$parties <- dealt$parties
    fit$folder <- out
    rows <- model$rows
    fit$rehearsal <- list(
        terms = dealt$terms[union(first, names(dealt$terms))], intercept = dealt$intercept, frame = model$frame,
        data = rows_of_fit(data, rows, c(all.vars(formula[[2]]), model$used)),
        columns = names(data), outcome = coded_outcome(outcome$values[rows], outcome$levels, run$report), levels = outcome$levels,
        weights = weights$values[rows], weighed = weights$again, offset = offset, rows = rows
    )
    if (run$code == 3L) warn_unfinished(run$report, run$log)
    fit
}

# Names of rows stay as they are where no row is left out.
rows_of_fit <- function(data, rows, columns) {
    data <- as.data.frame(data)[intersect(unique(columns), names(data))]
    if (length(rows) == nrow(data)) data else data[rows, , drop = FALSE]
}

# Arguments that users of `glm` try. They are found by name: their values may have no meaning outside of `glm`.
check_call <- function(call) {
    instead <- c(
        subset = "give the rows by `data = data[rows, ]`", na.action = "`missing = \"complete-cases\"` leaves incomplete rows out",
        contrasts = "factors have treatment contrasts, and their first level is the reference",
        start = "the programs start where they do", control = "`tol` and `max_rounds` are arguments of their own"
    )
    for (name in intersect(names(call), names(instead))) refuse("there is no argument `", name, "` as in `glm`: ", instead[[name]])
}

# Names of columns that a formula or a list of columns has; a dot has them all. In a formula R writes letters that its locale has not by
# their numbers.
used_names <- function(formula, data, lists) {
    named <- all.vars(formula)
    known <- names(data)[nzchar(names(data))]
    written <- vapply(known, function(name) suppressWarnings(as.character(as.name(name))), "")
    known["." %in% named | written %in% named | known %in% unlist(Filter(is.character, lists))]
}

# R cannot write a formula with letters that its locale has not.
check_locale <- function(texts, what) {
    lost <- texts[is.na(iconv(enc2utf8(texts), "UTF-8", ""))]
    if (length(lost)) {
        refuse(
            what, " `", lost[[1]], "` has letters that the locale of R, ", Sys.getlocale("LC_CTYPE"), ", does not have: ",
            "start R in a locale with UTF-8, such as LC_ALL=C.UTF-8"
        )
    }
}

checked_formula <- function(formula) {
    if (is.character(formula)) formula <- stats::as.formula(formula, env = parent.frame(2))
    if (!inherits(formula, "formula") || length(formula) != 3) refuse("`formula` is to have two sides: y ~ a + b")
    formula
}

# Name of the family for the programs, which know each with its canonical link. What they know is theirs to say.
checked_family <- function(family) {
    if (is.character(family) && length(family) == 1) return(family)
    if (is.function(family)) family <- family()
    if (!inherits(family, "family")) {
        refuse("`family` is to be a family as in `glm`: gaussian, binomial, poisson, quasibinomial or quasipoisson")
    }
    canonical <- c(gaussian = "identity", binomial = "logit", poisson = "log", quasibinomial = "logit", quasipoisson = "log")
    if (family$family %in% names(canonical) && family$link != canonical[[family$family]]) {
        refuse("a ", family$family, " model has the link ", canonical[[family$family]], ", and not ", family$link)
    }
    family$family
}

# Flags of `demo vertical` from further arguments: TRUE is a flag without a value.
checked_flags <- function(flags) {
    if (!length(flags)) return(list())
    if (is.null(names(flags)) || any(!nzchar(names(flags)))) refuse("an argument has no name: columns are dealt by `alice =` and `bob =`")
    names(flags) <- gsub("[._]", "-", names(flags))
    ours <- c("data", "format", "alice-data", "bob-data", "match", "table", "query", "separator", "na-values", "decimal", "verbose")
    wrong <- intersect(names(flags), ours)
    if (length(wrong)) refuse("the flag --", wrong[[1]], " of the program has no place here: the table is made from `data`")
    for (name in names(flags)) {
        value <- flags[[name]]
        if (!is.null(value) && !is.character(value) && !is.numeric(value) && !is.logical(value)) {
            refuse("the argument `", gsub("-", "_", name), "` is ", class(value)[[1]], " where text or a number is expected")
        }
    }
    Filter(function(value) !is.null(value) && !identical(value, FALSE), flags)
}

# Weights or an offset: a column by its name, or values.
beside_model <- function(expression, data, formula, what) {
    if (is.null(expression)) return(NULL)
    values <- eval(expression, data, environment(formula))
    if (is.null(values)) return(NULL)
    if (is.character(values) && length(values) == 1) {
        check_columns(values, data, paste0("`", what, "`"))
        return(list(name = values, values = data[[values]], again = as.name(values)))
    }
    if (!is.numeric(values) || length(values) != nrow(data)) {
        refuse("`", what, "` is to be a number for each of the ", nrow(data), " rows of `data`")
    }
    if (is.name(expression) && as.character(expression) %in% names(data)) {
        return(list(name = as.character(expression), values = as.numeric(values), again = expression))
    }
    list(name = make.unique(c(names(data), what))[[length(data) + 1]], values = as.numeric(values), again = expression)
}

# The table's columns beside those of the terms, by name. One that is a term, too, has another name there.
columns_beside <- function(given, terms, known) {
    taken <- unlist(lapply(unlist(terms), all.vars))
    extra <- list()
    for (role in names(given)) {
        one <- given[[role]]
        if (is.null(one)) next
        name <- one$name
        if (role != "outcome" && name %in% taken) {
            others <- unique(c(known, taken))
            name <- make.unique(c(others, name))[[length(others) + 1]]
        }
        taken <- c(taken, name)
        extra[[name]] <- list(values = one$values, role = role)
    }
    extra
}

all_offsets <- function(offset, terms, data, formula) {
    if (!length(terms)) return(offset)
    parts <- lapply(terms, function(term) beside_model(term[[2]], data, formula, "offset"))
    if (!is.null(offset)) parts <- c(list(offset), parts)
    if (length(parts) == 1) return(parts[[1]])
    name <- make.unique(c(names(data), "offset"))[[length(data) + 1]]
    list(name = name, values = Reduce(`+`, lapply(parts, `[[`, "values")))
}

# The outcome, which may be an expression. As in `glm`, all levels of a factor but the first are successes.
outcome_of <- function(formula, data, family) {
    left <- formula[[2]]
    check_columns(setdiff(all.vars(left), ls(environment(formula), all.names = TRUE)), data, "outcome")
    values <- eval(left, data, environment(formula))
    name <- if (is.name(left)) as.character(left) else as_written(left)
    if (!is.null(dim(values))) {
        refuse("the outcome `", name, "` has ", NCOL(values), " columns: give a row for each person, or a share and `weights`")
    }
    if (length(values) != nrow(data)) refuse("the outcome has ", length(values), " values for the ", nrow(data), " rows of `data`")
    binary <- family %in% c("binomial", "quasibinomial")
    levels <- if (binary && is.factor(values)) levels(values)
    # Of text the programs have the levels in the order of bytes.
    if (binary && is.character(values)) levels <- sort(unique(values[!is.na(values)]), method = "radix")
    if (is.factor(values) && binary) values <- as.integer(values != levels[[1]])
    if (binary && is.logical(values)) values <- as.integer(values)
    list(name = name, values = values, levels = levels)
}

# The columns of the model as text and as R's own encoding has them, on the rows of the fit, with the bounds of a private run.
encoded_model <- function(terms, data, extra, outcome, family, bounds, mode) {
    used <- unique(unlist(lapply(unlist(terms), all.vars)))
    used <- intersect(used, names(data))
    if (is.null(bounds)) {
        bounds <- list()
    } else {
        check_bounds(bounds, c(used, outcome))
        if (is.list(bounds) && family == "binomial" && is.null(bounds[[outcome]])) bounds[[outcome]] <- c(0, 1)
    }
    columns <- c(as.list(data[used]), extra)
    check_levels(columns, if (identical(mode, "private")) bounds)
    complete <- !Reduce(`|`, lapply(columns, is.na), FALSE)
    rows <- which(rep_len(complete, nrow(data)))
    declared <- if (is.list(bounds)) bounds
    frame <- lapply(stats::setNames(used, used), function(name) as_encoded(data[[name]][rows], name, declared))
    for (name in names(Filter(is.factor, frame))) check_locale(levels(frame[[name]]), paste0("column `", name, "`: the level"))
    list(used = used, columns = columns, rows = rows, frame = frame, bounds = bounds)
}

# Who holds what, as flags of the program; `without` is the party whose formula leaves the intercept out.
party_flags <- function(terms, declare, several, without) {
    held <- lapply(stats::setNames(nm = names(terms)), function(name) {
        if (!name %in% without) return(party_columns(terms[[name]], declare))
        own <- party_formula(terms[[name]], declare)
        own$text <- sub("~", "~ 0 +", own$text, fixed = TRUE)
        own
    })
    texts <- lapply(held, `[[`, "text")
    flags <- texts
    if (several) flags <- list(parties = paste(paste0(names(texts), "=", unlist(texts)), collapse = ";"))
    list(flags = flags, spoken = unlist(unname(lapply(held, `[[`, "spoken"))))
}

# Text of a flag's value; a vector is a list.
flag_text <- function(value) {
    if (is.numeric(value)) value <- cells(value, "flag")
    paste(enc2utf8(as.character(value)), collapse = ",")
}

# Writes the table, runs the program, and reads the merged report.
rehearse <- function(columns, flags, bounds, outcome, out) {
    work <- tempfile("fedreg-")
    dir.create(work)
    on.exit(unlink(work, recursive = TRUE))
    table <- file.path(work, "data.csv")
    folder <- if (is.null(out)) file.path(work, "study") else normalizePath(out, mustWork = FALSE)
    write_table(Map(cells, columns, names(columns)), table)
    if (is.character(bounds)) {
        flags$bounds <- normalizePath(bounds)
    } else if (length(bounds)) {
        flags$bounds <- file.path(work, "bounds.toml")
        write_bounds(bounds, outcome, flags$bounds)
    }
    arguments <- unlist(Map(function(name, value) {
        # Joined by `=`, as a value may begin with a hyphen.
        if (isTRUE(value)) paste0("--", name) else paste0("--", name, "=", flag_text(value))
    }, names(flags), flags))
    run <- run_demo(c(paste0("--data=", table), arguments, paste0("--out=", folder)))
    if (!run$code %in% c(0L, 3L)) {
        # The user has no such file, but a data frame.
        sentence <- gsub(table, "the table of `data`", failure_sentence(run$log), fixed = TRUE)
        fedreg_error(sentence, run$code, run$log, advice = failure_advice(sentence))
    }
    run$report <- parsed_report(file.path(folder, "report.json"))
    run
}

# The programs name the levels of a factor in its term, as R does; a factor that only kept its order is called by its column.
spoken_as_in_r <- function(report, spoken) {
    for (said in names(spoken)) {
        replace <- function(text) gsub(said, spoken[[said]], text, fixed = TRUE)
        report[names(report) != "call"] <- rapply(
            report[names(report) != "call"], replace, classes = "character", how = "replace"
        )
    }
    report
}
