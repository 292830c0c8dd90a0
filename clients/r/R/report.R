# Reading a report, and the object of class `fedreg` that is made of it.

#' Read a party's report
#'
#' Reads the `report.json` that `alice fit`, `bob fit`, `party fit`, their `refit` (a sub-model), a robust or EM fit of `worker` and
#' `coordinator`, or `demo` has written, as an object with the methods of a fitted model.
#'
#' A report holds what its party may see: with `coefficients = "own"` in the study only the party's own coefficients, of the
#' covariance matrix only the party's own block. What it does not hold is `NA`, or an error that says why.
#'
#' The levels of factors, which [predict()][predict.fedreg] needs, are not in the report but in the file `model.json` that the program
#' writes beside it; they are read from there where it is.
#'
#' @param path the file, or the folder that holds `report.json`.
#' @return An object of class `fedreg`, see [fedreg-methods] and [tidiers]. Its element `report` is the parsed report, whose fields are
#'   explained in the chapter "Fields of JSON" of the book of fedreg.
#' @examples
#' fit <- read_fedreg(system.file("extdata", "alice", package = "fedreg"))
#' fit
#' vcov(fit)[1:3, 1:3]
#' @export
read_fedreg <- function(path) {
    if (!is.character(path) || length(path) != 1 || is.na(path)) refuse("`path` is to be the path of a report.json")
    file <- if (dir.exists(path)) file.path(path, "report.json") else path
    report <- parsed_report(file)
    fit <- fedreg_object(report, call = NULL)
    fit$path <- file
    fit$levels <- learnt_levels(dirname(file), report)
    fit
}

parsed_report <- function(file) {
    if (!file.exists(file)) fedreg_error(paste0("there is no report at ", file), class = "fedreg_report")
    report <- tryCatch(
        # Of a private release or a table nothing is simplified, so that a field has one shape whatever is in it.
        jsonlite::fromJSON(file, simplifyVector = FALSE, bigint_as_char = FALSE),
        error = function(e) fedreg_error(paste0(file, " is no JSON: ", conditionMessage(e)), class = "fedreg_report")
    )
    if (!is.list(report) || is.null(report$protocol) || is.null(report$version)) {
        what <- if (is.list(report) && !is.null(report$terms)) "; a model file holds no result, the report beside it does" else ""
        fedreg_error(paste0(file, " is no report of fedreg: it has no `protocol` and `version`", what), class = "fedreg_report")
    }
    if (!readable_version(report$version)) {
        fedreg_error(paste0(
            file, " was made by fedreg ", report$version, ", and this package reads reports of ", own_version(),
            ": install the package of that version"
        ), class = "fedreg_version")
    }
    if (!length(report$coefficients)) {
        fedreg_error(paste0(
            file, " is of the method ", report$protocol, ", whose result is a function and has no coefficients; ",
            "predict with `worker predict`"
        ), class = "fedreg_report")
    }
    report
}

# One value, with NA for what is null.
one <- function(value, kind = NA_real_) {
    if (is.null(value) || length(value) != 1) return(kind)
    if (is.numeric(kind)) as.numeric(value) else value
}

field <- function(rows, name, kind = NA_real_) {
    vapply(rows, function(row) one(row[[name]], kind), kind, USE.NAMES = FALSE)
}

coefficient_table <- function(report) {
    rows <- report$coefficients
    data.frame(
        term = field(rows, "term", NA_character_), party = field(rows, "party", NA_character_),
        estimate = field(rows, "estimate"), std.error = field(rows, "std_error"), statistic = field(rows, "statistic"),
        p.value = field(rows, "p_value"), conf.low = field(rows, "conf_low"), conf.high = field(rows, "conf_high"),
        stringsAsFactors = FALSE
    )
}

# The names of R's fitted models where the meaning is that of `glm`, so that default methods such as `deviance` find them.
fedreg_object <- function(report, call) {
    table <- coefficient_table(report)
    structure(
        list(
            coefficients = stats::setNames(table$estimate, labels_of(table)),
            table = table,
            df.residual = one(report$df_residual), df.null = one(report$df_null),
            deviance = one(report$deviance), null.deviance = one(report$null_deviance),
            aic = one(report$aic), dispersion = one(report$dispersion), nobs = one(report$nobs),
            converged = one(report$converged, NA), mode = one(report$mode, NA_character_), call = call, report = report
        ),
        class = "fedreg"
    )
}

# Two parties may have columns of one name; then the party's stands behind it.
labels_of <- function(table) {
    twice <- table$term %in% table$term[duplicated(table$term)]
    ifelse(twice, paste0(table$term, "@", table$party), table$term)
}

# A field that a merged report of two or more parties has by role, as a list by role for every report.
by_role <- function(report, name) {
    value <- report[[name]]
    if (is.null(value)) return(list())
    roles <- unique(field(report$coefficients, "party", NA_character_))
    if (is.null(report$role) && length(value) && all(names(value) %in% roles)) return(value)
    stats::setNames(list(value), if (is.null(report$role)) "all" else report$role)
}

# Levels by party and column from the model files of the run: beside a party's report, or in the parties' folders beside a merged one.
learnt_levels <- function(folder, report) {
    roles <- unique(field(report$coefficients, "party", NA_character_))
    files <- c(file.path(folder, "model.json"), file.path(folder, roles, "model.json"), file.path(dirname(folder), roles, "model.json"))
    levels <- list()
    for (file in files[file.exists(files)]) {
        model <- tryCatch(jsonlite::fromJSON(file, simplifyVector = FALSE), error = function(e) NULL)
        # A file of another run has other levels.
        if (!identical(model$run, report$run)) next
        role <- one(model$role, "")
        levels[[role]] <- utils::modifyList(as.list(levels[[role]]), lapply(model$levels, unlist))
    }
    levels
}
