# Finding the program `demo` of fedreg and running it.

#' @importFrom utils packageVersion head
NULL

# Folder of the programs as the user gave it: an option for a session, a variable for a machine.
program_folder <- function() {
    folder <- getOption("fedreg.bin", Sys.getenv("FEDREG_BIN"))
    if (is.null(folder) || !nzchar(folder)) NULL else path.expand(folder)
}

# Path of the program `demo`, or a condition that says how to get it.
demo_program <- function() {
    folder <- program_folder()
    name <- if (.Platform$OS.type == "windows") "demo.exe" else "demo"
    path <- if (is.null(folder)) Sys.which("demo") else file.path(folder, name)
    if (!nzchar(path) || !file.exists(path) || dir.exists(path)) {
        missing_program(folder)
    }
    unname(path)
}

missing_program <- function(folder) {
    where <- if (is.null(folder)) {
        "on PATH"
    } else {
        paste0("in ", dQuote(folder, FALSE), ", which FEDREG_BIN or the option `fedreg.bin` names")
    }
    fedreg_error(
        paste0(
            "the program `demo` of fedreg was not found ", where, "\n",
            "  to get it, build fedreg in its checkout with `cargo build --release`, or unpack a release;\n",
            "  then name the folder that holds `demo`: Sys.setenv(FEDREG_BIN = \"/path/to/fedreg/target/release\")"
        ),
        class = "fedreg_missing_program"
    )
}

# The program's version. Other programs are called `demo` too, and another version may say other things.
demo_version <- function(path) {
    # An error in finding the program is not one of its answer.
    force(path)
    said <- tryCatch(
        suppressWarnings(system2(path, "--version", stdout = TRUE, stderr = FALSE, stdin = "", timeout = 20)),
        error = function(e) character()
    )
    said <- if (length(said)) said[[1]] else ""
    if (!grepl("^demo [0-9]+\\.[0-9]+", said)) {
        fedreg_error(paste0(
            "`", path, "` is no program of fedreg: to `--version` it answers ", dQuote(said, FALSE), "\n",
            "  name the folder of fedreg's programs: Sys.setenv(FEDREG_BIN = \"/path/to/fedreg/target/release\")"
        ), class = "fedreg_missing_program")
    }
    version <- sub("^demo ", "", said)
    if (!readable_version(version)) {
        fedreg_error(paste0(
            "`", path, "` is fedreg ", version, ", and this package is for ", own_version(),
            ": install the package and the programs from the same version"
        ), class = "fedreg_version")
    }
    version
}

# First two numbers of a version. Before 1.0 the second one changes with what a report means.
own_version <- function() paste(unlist(packageVersion("fedreg"))[1:2], collapse = ".")

readable_version <- function(version) {
    is.character(version) && length(version) == 1 && startsWith(paste0(version, "."), paste0(own_version(), "."))
}

# Runs `demo vertical` with these arguments and returns its exit code and its log.
run_demo <- function(arguments) {
    path <- demo_program()
    demo_version(path)
    log <- tempfile("fedreg-log-")
    on.exit(unlink(log))
    code <- suppressWarnings(system2(path, shQuote(c("vertical", arguments)), stdout = FALSE, stderr = log, stdin = ""))
    lines <- if (file.exists(log)) readLines(log, warn = FALSE, encoding = "UTF-8") else character()
    list(code = as.integer(code), log = lines)
}

# What an exit code means, in the words of the table of exit codes.
exit_meaning <- function(code) {
    switch(as.character(code),
        "1" = "a bug of fedreg: please report it with the log, which is in the element `log` of this condition",
        "2" = "the arguments cannot be understood",
        "3" = "the result was written, but the fit did not converge, or lies outside the method's guarantee",
        "65" = "the data were refused",
        "69" = "a party could not be reached",
        "73" = "a file cannot be written",
        "76" = "a party broke the protocol",
        "77" = "a certificate, digest, budget or policy refused the run",
        "127" = "the program could not be started",
        "130" = "interrupted",
        "the program ended in a way that is not in its table of exit codes"
    )
}

# The sentence of a failed run. What one party says of the other's failure repeats it with less, so it goes when there is more.
failure_sentence <- function(log) {
    log <- sub("[[:space:]]+$", "", log)
    usage <- grep("^Usage:", log)
    if (length(usage)) log <- log[seq_len(usage[[1]] - 1)]
    log <- log[!grepl("^For more information, try", log)]
    reasons <- log[!grepl("^[^ ]+: .* ended the run: |^demo: the run was ended; logs are in ", log)]
    if (!any(nzchar(reasons))) reasons <- log
    reasons <- sub("^(demo|error): ", "", reasons[nzchar(reasons)])
    # What is a flag of the program is an argument here.
    reasons <- sub("^--(alice|bob|parties): ", "\\1: ", reasons)
    if (length(reasons)) paste(reasons, collapse = "\n") else "the program said nothing"
}

# What an R user can do about a sentence of the program, where R has other words for it than the program.
failure_advice <- function(sentence) {
    advice <- c(
        if (grepl("missing value", sentence)) "`missing = \"complete-cases\"` drops incomplete rows, as `na.omit` does",
        if (grepl("--bounds", sentence, fixed = TRUE)) {
            "in R: bounds = list(age = c(18, 90), region = c(\"north\", \"south\"), cost = c(0, 5000))"
        },
        if (grepl("sealed_entropy_bits", sentence, fixed = TRUE)) "`sealed_limits = \"off\"` rehearses without these limits",
        if (grepl("(^| )--[a-z]", sentence)) "in R a flag such as --id is the argument `id`",
        if (grepl("\\bline [0-9]+", sentence)) "line N of the table is row N - 1 of `data`"
    )
    if (length(advice)) paste0("\n  (", paste(advice, collapse = "; "), ")") else ""
}

# Raises a condition of class `fedreg_error`.
fedreg_error <- function(sentence, exit_code = NA_integer_, log = character(), class = character(), advice = "") {
    meaning <- if (is.na(exit_code)) "" else paste0("\n  (exit code ", exit_code, ": ", exit_meaning(exit_code), ")")
    stop(structure(
        class = c(class, "fedreg_error", "error", "condition"),
        list(message = paste0(sentence, meaning, advice), call = NULL, sentence = sentence, exit_code = exit_code, log = log)
    ))
}

# A fit that ended without convergence has a result, which is returned where nobody catches the warning.
warn_unfinished <- function(report, log) {
    reason <- termination_words(report$termination)
    notes <- unlist(report$notes)
    sentence <- paste(c(paste0("the fit is not finished: ", reason), notes), collapse = "\n  ")
    warning(structure(
        class = c("fedreg_unfinished", "fedreg_error", "warning", "condition"),
        list(
            message = paste0(sentence, "\n  (exit code 3: ", exit_meaning(3), ")"), call = NULL,
            sentence = sentence, exit_code = 3L, log = log
        )
    ))
}

termination_words <- function(termination) {
    switch(if (is.null(termination)) "" else termination,
        converged = "converged",
        max_rounds = "the limit of rounds was reached first",
        separation = "a combination of columns separates the outcome, and estimates grow without bound",
        out_of_range = "the next step was out of the range that sealed mode follows",
        opening_limit = "a party's limits on what may open allowed no further gradient",
        collinear_across_parties = "columns of the parties depend on each other, and the fit was made again without the later ones",
        fixed_rounds = "the fixed number of rounds was run",
        outside_guarantee = "the result lies outside the method's guarantee",
        interrupted = "interrupted",
        "the report does not say how it ended"
    )
}
