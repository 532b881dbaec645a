# The same variables as in a Rails application's own file.
most = Integer(ENV.fetch("RAILS_MAX_THREADS", 5))
threads most, most
workers Integer(ENV.fetch("WEB_CONCURRENCY", 0))
port Integer(ENV.fetch("PORT", 3000))
